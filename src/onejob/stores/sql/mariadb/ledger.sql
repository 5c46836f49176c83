-- name: ledger_purge
-- why: no RETURNING; there are no runs to ask about
SET @onejob_now = {now}
-- then
-- answer
SELECT CONVERT(`key` USING utf8mb4)
  FROM {schema}ledger
 WHERE kept_until BETWEEN 1 AND @onejob_now - 1
   AND (state IN ('done', 'failed', 'free') OR claim_until BETWEEN 1 AND @onejob_now)
 ORDER BY kind, scope, `key`
 LIMIT :limit
   FOR UPDATE SKIP LOCKED
-- then
DELETE l
  FROM (SELECT kind, scope, `key`
          FROM {schema}ledger
         WHERE kept_until BETWEEN 1 AND @onejob_now - 1
           AND (state IN ('done', 'failed', 'free') OR claim_until BETWEEN 1 AND @onejob_now)
         ORDER BY kind, scope, `key`
         LIMIT :limit
           FOR UPDATE SKIP LOCKED) AS old
  STRAIGHT_JOIN {schema}ledger AS l
    ON l.kind = old.kind
   AND l.scope = old.scope
   AND l.`key` = old.`key`
