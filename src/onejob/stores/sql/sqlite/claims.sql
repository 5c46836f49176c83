-- name: claim_take
-- why: no data-modifying CTEs, so the abandoned one is told of before it changes hands, under the
-- same guard; tokens from the counter row, which moves last
INSERT INTO {schema}event (at, kind, job, key, token, replica, schedule, detail)
SELECT {now}, CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END || '.abandoned', scope, key,
       token, owner, scope, json_object('taken_by', :owner, 'state', state)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND run_id = 0
   AND ((state = 'claimed' AND claim_until BETWEEN 1 AND {now})
        OR (state = 'firing' AND claim_until <= {now} AND :even_if_unsure = 1)
        OR (state IN ('claimed', 'firing')
            AND :spacing > 0
            AND {now} NOT BETWEEN claimed - :spacing - 60000000 AND claimed + :spacing - 1))
-- then
-- answer
INSERT INTO {schema}ledger AS l (kind, scope, key, state, token, owner, claimed, claim_until,
                                 kept_until)
SELECT :kind, :scope, :key, 'claimed', value + 1, :owner, {now}, {now} + :lease,
       {now} + :lease + :keep
  FROM {schema}counter
 WHERE name = 'token'
    ON CONFLICT (kind, scope, key) DO UPDATE
   SET (state, token, owner, claimed, claim_until, kept_until, attempt, error) = (
       SELECT iif(may.take, 'claimed', l.state),
              iif(may.take, excluded.token, l.token),
              iif(may.take, excluded.owner, l.owner),
              iif(may.take AND NOT may.stay, excluded.claimed, l.claimed),
              iif(may.take, excluded.claim_until, l.claim_until),
              iif(may.take, excluded.kept_until, l.kept_until),
              CASE WHEN NOT may.take THEN l.attempt
                   WHEN may.stay OR :spacing = 0 THEN l.attempt + 1
                   ELSE 1 END,
              iif(may.take, NULL, l.error)
         FROM (SELECT l.run_id = 0
                  AND (l.state = 'free'
                       OR (l.state = 'claimed' AND l.claim_until BETWEEN 1 AND {now})
                       OR (l.state = 'firing' AND l.claim_until <= {now} AND :even_if_unsure = 1)
                       OR (:spacing > 0
                           AND {now} NOT BETWEEN l.claimed - :spacing - 60000000
                                             AND l.claimed + :spacing - 1)) AS take,
                      {now} BETWEEN l.claimed - :spacing - 60000000
                                AND l.claimed + :spacing - 1 AS stay) AS may)
RETURNING token > (SELECT value FROM {schema}counter WHERE name = 'token'), state, token, owner,
          attempt, claimed, claim_until, {now}
-- then
INSERT INTO {schema}event (at, kind, job, key, token, replica, schedule, detail)
SELECT {now}, CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END || '.lost', l.scope, l.key,
       l.token, :owner, l.scope, json_object('holder', l.owner, 'state', l.state)
  FROM {schema}ledger AS l
  JOIN {schema}counter AS c
    ON c.name = 'token'
 WHERE l.kind = :kind
   AND l.scope = :scope
   AND l.key = :key
   AND l.token <= c.value
   AND l.owner <> :owner
   AND :tell = 1
-- then
UPDATE {schema}counter
   SET value = max(value, (SELECT token
                             FROM {schema}ledger
                            WHERE kind = :kind AND scope = :scope AND key = :key))
 WHERE name = 'token'

-- name: claim_release
-- why: no data-modifying CTEs; told of first, while it is still held
INSERT INTO {schema}event (at, kind, job, key, token, replica, schedule, detail)
SELECT {now}, CASE :kind WHEN 'schedule' THEN 'tick' ELSE :kind END || '.released', scope, key,
       token, owner, scope, json_object('error', :error)
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing')
-- then
-- answer
UPDATE {schema}ledger
   SET error = iif(state = 'free', error, :error),
       claim_until = iif(state = 'free', claim_until, {now}),
       kept_until = iif(state = 'free', kept_until, {now} + :keep),
       state = 'free'
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND token = :token
   AND owner = :owner
   AND state IN ('claimed', 'firing', 'free')
RETURNING key

-- name: claim_renew
-- why: json_each; the write lock stands for the row locks
UPDATE {schema}ledger AS l
   SET claim_until = {now} + json_extract(given.value, '$.lease')
  FROM json_each(:batch) AS given
 WHERE l.kind = json_extract(given.value, '$.kind')
   AND l.scope = json_extract(given.value, '$.scope')
   AND l.key = json_extract(given.value, '$.key')
   AND l.token = json_extract(given.value, '$.token')
   AND l.owner = json_extract(given.value, '$.owner')
   AND l.state IN ('claimed', 'firing')
RETURNING owner

-- name: claim_read
-- why: json_each
SELECT kind, scope, key, state, token, owner, attempt, claimed, claim_until, error, {now}
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND key IN (SELECT value FROM json_each(:keys))
   AND run_id = 0
 ORDER BY key
