-- name: ledger_first
-- why: no RETURNING. A known key is locked and not changed, whatever a session counts as a change;
-- whose row it is tells its owner, which is this call's own.
INSERT INTO {schema}ledger (kind, scope, `key`, state, owner, attempt, claimed, kept_until)
VALUES (:kind, :scope, :key, 'done', :owner, 1, {now}, {now} + :keep)
    ON DUPLICATE KEY UPDATE token = {schema}ledger.token
-- then
-- answer
SELECT CONVERT(`key` USING utf8mb4)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND owner = :owner
   FOR UPDATE

-- name: ledger_first_many
-- why: no RETURNING; JSON_TABLE. In the order of the keys, which is the same for all.
INSERT INTO {schema}ledger (kind, scope, `key`, state, owner, attempt, claimed, kept_until)
SELECT :kind, :scope, given.`key`, 'done', :owner, 1, {now}, {now} + :keep
  FROM JSON_TABLE(CONVERT(:keys USING utf8mb4), '$[*]'
         COLUMNS (place FOR ORDINALITY,
                  `key` varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS given
 ORDER BY given.place
    ON DUPLICATE KEY UPDATE token = {schema}ledger.token
-- then
-- answer
SELECT CONVERT(l.`key` USING utf8mb4)
  FROM JSON_TABLE(CONVERT(:keys USING utf8mb4), '$[*]'
         COLUMNS (`key` varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS given
  STRAIGHT_JOIN {schema}ledger AS l
    ON l.kind = :kind
   AND l.scope = :scope
   AND l.`key` = CAST(given.`key` AS BINARY)
 WHERE l.owner = :owner
   FOR UPDATE

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
