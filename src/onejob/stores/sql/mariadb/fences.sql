-- name: fence_check
-- why: no WHERE after a conflict and no RETURNING: the row is written as it stands where a higher
-- token is known, which locks it all the same; and the answer is read under that lock, or a
-- transaction that goes on reading what it read first would be shown an old token. One far above the
-- clock nobody was given: noted, it would shut the resource to everybody.
INSERT INTO {schema}fence (scope, resource, token, seen)
SELECT :scope, :resource, :token, {now}
  FROM DUAL
 WHERE :token <= 86400000000 + TIMESTAMPDIFF(
         MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    ON DUPLICATE KEY UPDATE
       seen = IF({schema}fence.token <= VALUES(token), VALUES(seen), {schema}fence.seen),
       token = GREATEST({schema}fence.token, VALUES(token))
-- then
-- answer
SELECT CONVERT(resource USING utf8mb4)
  FROM {schema}fence
 WHERE scope = :scope
   AND resource = :resource
   AND token = :token
   FOR UPDATE
-- then
SET @onejob_idle = :idle_limit /*M!100600 ,
    SESSION idle_transaction_timeout = CASE
      WHEN @@idle_transaction_timeout BETWEEN 1 AND (:idle_limit + 999999) DIV 1000000
      THEN @@idle_transaction_timeout
      ELSE (:idle_limit + 999999) DIV 1000000
    END */

-- name: fence_known
-- why: asked where a token was refused, so the row is locked by that transaction; without a lock it
-- would be shown what it read first
SELECT token
  FROM {schema}fence
 WHERE scope = :scope
   AND resource = :resource
  LOCK IN SHARE MODE

-- name: fence_purge
-- why: no RETURNING
SET @onejob_now = {now}
-- then
-- answer
SELECT CONVERT(resource USING utf8mb4)
  FROM {schema}fence
 WHERE seen < @onejob_now - :unused
 ORDER BY scope, resource
 LIMIT :limit
   FOR UPDATE SKIP LOCKED
-- then
DELETE f
  FROM (SELECT scope, resource
          FROM {schema}fence
         WHERE seen < @onejob_now - :unused
         ORDER BY scope, resource
         LIMIT :limit
           FOR UPDATE SKIP LOCKED) AS old
  STRAIGHT_JOIN {schema}fence AS f
    ON f.scope = old.scope
   AND f.resource = old.resource
