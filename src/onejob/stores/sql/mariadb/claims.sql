-- name: claim_take
-- why: no data-modifying CTEs, no sequence. The row is made, free, where there is none, which locks
-- it either way and waits for whoever has it; then it is decided, told and written under that lock.
INSERT INTO {schema}ledger (kind, scope, `key`, state, claimed)
VALUES (:kind, :scope, :key, 'free', {now})
    ON DUPLICATE KEY UPDATE token = {schema}ledger.token
-- then
SELECT l.state, l.token, CONVERT(l.owner USING utf8mb4),
       {now} BETWEEN l.claimed - :spacing - 60000000 AND l.claimed + :spacing - 1,
       l.state = 'free'
         OR (l.state = 'claimed' AND l.claim_until BETWEEN 1 AND {now})
         OR (l.state = 'firing' AND l.claim_until <= {now} AND :even_if_unsure = 1)
         OR (:spacing > 0
             AND {now} NOT BETWEEN l.claimed - :spacing - 60000000 AND l.claimed + :spacing - 1)
  INTO @onejob_state, @onejob_token, @onejob_owner, @onejob_stay, @onejob_take
  FROM {schema}ledger AS l
 WHERE l.kind = :kind
   AND l.scope = :scope
   AND l.`key` = :key
   FOR UPDATE
-- then
INSERT INTO {schema}event (at, kind, job, `key`, token, replica, schedule, detail)
SELECT {now}, CONCAT(CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END, '.abandoned'), :scope,
       :key, @onejob_token, @onejob_owner, :scope,
       JSON_OBJECT('taken_by', CONVERT(:owner USING utf8mb4),
                   'state', CONVERT(@onejob_state USING utf8mb4))
  FROM DUAL
 WHERE @onejob_take = 1
   AND @onejob_state IN ('claimed', 'firing')
 UNION ALL
SELECT {now}, CONCAT(CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END, '.lost'), :scope,
       :key, @onejob_token, :owner, :scope,
       JSON_OBJECT('holder', @onejob_owner, 'state', CONVERT(@onejob_state USING utf8mb4))
  FROM DUAL
 WHERE @onejob_take = 0
   AND CAST(@onejob_owner AS BINARY) <> :owner
   AND :tell = 1
-- then
UPDATE {schema}ledger
   SET state = 'claimed',
       token = GREATEST(@onejob_token + 1, TIMESTAMPDIFF(
                 MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       owner = :owner,
       attempt = IF(@onejob_stay = 1 OR :spacing = 0, attempt + 1, 1),
       claimed = IF(@onejob_stay = 1, claimed, {now}),
       claim_until = {now} + :lease,
       kept_until = {now} + :lease + :keep,
       error = NULL
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = @onejob_token
   AND @onejob_take = 1
-- then
-- answer
SELECT @onejob_take, CONVERT(state USING utf8mb4), token, CONVERT(owner USING utf8mb4), attempt,
       claimed, claim_until, {now}
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   FOR UPDATE

-- name: claim_mark
-- why: no RETURNING
-- answer
SELECT CONVERT(`key` USING utf8mb4)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing')
   FOR UPDATE
-- then
UPDATE {schema}ledger
   SET state = 'firing',
       claim_until = {now} + :lease
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing')

-- name: claim_end
-- why: no RETURNING; assignments see those before them, so the state comes last
-- answer
SELECT CONVERT(`key` USING utf8mb4)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing', :state)
   FOR UPDATE
-- then
UPDATE {schema}ledger
   SET error = :error,
       claim_until = IF(state = :state, claim_until, {now}),
       kept_until = IF(state = :state, kept_until, {now} + :keep),
       state = :state
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing', :state)

-- name: claim_release
-- why: no data-modifying CTEs; the row is locked, told of, then freed
-- answer
SELECT CONVERT(`key` USING utf8mb4)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing', 'free')
   FOR UPDATE
-- then
INSERT INTO {schema}event (at, kind, job, `key`, token, replica, schedule, detail)
SELECT {now}, CONCAT(CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END, '.released'), :scope,
       :key, l.token, :owner, :scope, JSON_OBJECT('error', CONVERT(:error USING utf8mb4))
  FROM {schema}ledger AS l
 WHERE l.kind = :kind
   AND l.scope = :scope
   AND l.`key` = :key
   AND l.token = :token
   AND l.owner = :owner
   AND l.state IN ('claimed', 'firing')
-- then
UPDATE {schema}ledger
   SET error = :error,
       claim_until = {now},
       kept_until = {now} + :keep,
       state = 'free'
 WHERE kind = :kind
   AND scope = :scope
   AND `key` = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing')

-- name: claim_renew
-- why: JSON_TABLE, and no RETURNING
-- answer
SELECT CONVERT(l.owner USING utf8mb4)
  FROM JSON_TABLE(CONVERT(:batch USING utf8mb4), '$[*]'
         COLUMNS (kind varchar(32) CHARACTER SET utf8mb4 PATH '$.kind',
                  scope varchar(1024) CHARACTER SET utf8mb4 PATH '$.scope',
                  `key` varchar(1024) CHARACTER SET utf8mb4 PATH '$.key',
                  token bigint PATH '$.token',
                  owner varchar(1024) CHARACTER SET utf8mb4 PATH '$.owner')) AS g
  STRAIGHT_JOIN {schema}ledger AS l
    ON l.kind = g.kind
   AND l.scope = g.scope
   AND l.`key` = g.`key`
 WHERE l.token = g.token
   AND l.owner = g.owner
   AND l.state IN ('claimed', 'firing')
   FOR UPDATE
-- then
UPDATE JSON_TABLE(CONVERT(:batch USING utf8mb4), '$[*]'
         COLUMNS (kind varchar(32) CHARACTER SET utf8mb4 PATH '$.kind',
                  scope varchar(1024) CHARACTER SET utf8mb4 PATH '$.scope',
                  `key` varchar(1024) CHARACTER SET utf8mb4 PATH '$.key',
                  token bigint PATH '$.token',
                  owner varchar(1024) CHARACTER SET utf8mb4 PATH '$.owner',
                  lease bigint PATH '$.lease')) AS g
  STRAIGHT_JOIN {schema}ledger AS l
    ON l.kind = g.kind
   AND l.scope = g.scope
   AND l.`key` = g.`key`
   SET l.claim_until = {now} + g.lease
 WHERE l.token = g.token
   AND l.owner = g.owner
   AND l.state IN ('claimed', 'firing')

-- name: claim_read
-- why: JSON_TABLE; names are binary
SELECT CONVERT(l.kind USING utf8mb4), CONVERT(l.scope USING utf8mb4),
       CONVERT(l.`key` USING utf8mb4), CONVERT(l.state USING utf8mb4), l.token,
       CONVERT(l.owner USING utf8mb4), l.attempt, l.claimed, l.claim_until, l.error, {now}
  FROM JSON_TABLE(CONVERT(:keys USING utf8mb4), '$[*]'
         COLUMNS (`key` varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS g
  STRAIGHT_JOIN {schema}ledger AS l
    ON l.kind = :kind
   AND l.scope = :scope
   AND l.`key` = g.`key`
 ORDER BY l.`key`

-- name: claim_listed
-- why: parameters without casts; names are binary
SELECT CONVERT(kind USING utf8mb4), CONVERT(scope USING utf8mb4), CONVERT(`key` USING utf8mb4),
       CONVERT(state USING utf8mb4), token, CONVERT(owner USING utf8mb4), attempt, claimed,
       claim_until, error, {now}
  FROM {schema}ledger
 WHERE kind = :kind
   AND (:scope = '' OR scope = :scope)
   AND (:lapsed = 0 OR (state IN ('claimed', 'firing') AND claim_until <= {now}))
 ORDER BY claimed DESC, scope, `key`
 LIMIT :limit
