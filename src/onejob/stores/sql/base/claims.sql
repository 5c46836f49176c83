-- name: claim_take
-- The unique key decides, and the row itself whether it may change hands: it is free, or its claim
-- lapsed before it began to fire (or even then, where told so), or the next tick of the same name
-- has come (or the clock was set back by more than a spacing and a minute, which is no reason to
-- wait for it to catch up). Never the key of a run. The loser rewrites the row as it stands: only so does one
-- statement see what a transaction committed that it had to wait for.
-- Whoever changes the row draws the token in SET, under its lock. Rows are freed, not deleted, so
-- that a number drawn in VALUES can't be overtaken by one that was drawn and ended meanwhile.
-- The token is the one drawn last here, or else we lost.
WITH before AS MATERIALIZED (
  SELECT token, owner, state
    FROM {schema}ledger
   WHERE kind = :kind
     AND scope = :scope
     AND key = :key
), asked AS (
  INSERT INTO {schema}ledger AS l (kind, scope, key, state, token, owner, claimed, claim_until,
                                   kept_until)
  VALUES (:kind, :scope, :key, 'claimed', nextval('{schema}token'), :owner, {now},
          {now} + CAST(:lease AS bigint), {now} + CAST(:lease AS bigint) + CAST(:keep AS bigint))
      ON CONFLICT (kind, scope, key) DO UPDATE
     SET (state, token, owner, claimed, claim_until, kept_until, attempt, error) = (
         SELECT CASE WHEN may.take THEN 'claimed' ELSE l.state END,
                CASE WHEN may.take THEN nextval('{schema}token') ELSE l.token END,
                CASE WHEN may.take THEN EXCLUDED.owner ELSE l.owner END,
                CASE WHEN may.take AND NOT may.stay THEN EXCLUDED.claimed ELSE l.claimed END,
                CASE WHEN may.take THEN EXCLUDED.claim_until ELSE l.claim_until END,
                CASE WHEN may.take THEN EXCLUDED.kept_until ELSE l.kept_until END,
                CASE WHEN NOT may.take THEN l.attempt
                     WHEN may.stay OR CAST(:spacing AS bigint) = 0 THEN l.attempt + 1
                     ELSE 1 END,
                CASE WHEN may.take THEN NULL ELSE l.error END
           FROM (SELECT l.run_id = 0
                    AND (l.state = 'free'
                         OR (l.state = 'claimed' AND l.claim_until BETWEEN 1 AND {now})
                         OR (l.state = 'firing' AND l.claim_until <= {now}
                             AND CAST(:even_if_unsure AS integer) = 1)
                         OR (CAST(:spacing AS bigint) > 0
                             AND {now} NOT BETWEEN l.claimed - CAST(:spacing AS bigint) - 60000000
                                               AND l.claimed + CAST(:spacing AS bigint) - 1)
                        ) AS take,
                        {now} BETWEEN l.claimed - CAST(:spacing AS bigint) - 60000000
                                  AND l.claimed + CAST(:spacing AS bigint) - 1 AS stay) AS may)
  RETURNING l.token = currval('{schema}token') AS won, l.state, l.token, l.owner, l.attempt,
            l.claimed, l.claim_until
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, token, replica, schedule, detail)
  SELECT {now}, CASE CAST(:kind AS text) WHEN 'schedule' THEN 'tick' ELSE :kind END || '.lost',
         :scope, :key, asked.token, :owner, :scope,
         CAST(jsonb_build_object('holder', asked.owner, 'state', asked.state) AS text)
    FROM asked
   WHERE NOT asked.won
     AND asked.owner <> :owner
     AND CAST(:tell AS integer) = 1
   UNION ALL
  SELECT {now}, CASE CAST(:kind AS text) WHEN 'schedule' THEN 'tick' ELSE :kind END || '.abandoned',
         :scope, :key, before.token, before.owner, :scope,
         CAST(jsonb_build_object('taken_by', asked.owner, 'state', before.state) AS text)
    FROM asked, before
   WHERE asked.won
     AND before.state IN ('claimed', 'firing')
)
SELECT CASE WHEN won THEN 1 ELSE 0 END, state, token, owner, attempt, claimed, claim_until, {now}
  FROM asked

-- name: claim_mark
-- Also a renewal: whoever says so just before the lease ends has a whole one to do it in.
UPDATE {schema}ledger
   SET state = 'firing',
       claim_until = {now} + CAST(:lease AS bigint)
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND token = CAST(:token AS bigint)
   AND owner = :owner
   AND state IN ('claimed', 'firing')
RETURNING key

-- name: claim_end
-- Accepted after the lease too, while nobody has taken over: the holder knows the truth.
UPDATE {schema}ledger
   SET state = :state,
       error = :error,
       claim_until = CASE WHEN state = CAST(:state AS text) THEN claim_until ELSE {now} END,
       kept_until = CASE WHEN state = CAST(:state AS text) THEN kept_until
                         ELSE {now} + CAST(:keep AS bigint) END
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND token = CAST(:token AS bigint)
   AND owner = :owner
   AND state IN ('claimed', 'firing', CAST(:state AS text))
RETURNING key

-- name: claim_release
WITH released AS (
  UPDATE {schema}ledger
     SET state = 'free',
         error = :error,
         claim_until = {now},
         kept_until = {now} + CAST(:keep AS bigint)
   WHERE kind = :kind
     AND scope = :scope
     AND key = :key
     AND token = CAST(:token AS bigint)
     AND owner = :owner
     AND state IN ('claimed', 'firing')
  RETURNING key
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, token, replica, schedule, detail)
  SELECT {now}, CASE CAST(:kind AS text) WHEN 'schedule' THEN 'tick' ELSE :kind END || '.released',
         :scope, :key, CAST(:token AS bigint), :owner, :scope,
         CAST(jsonb_build_object('error', CAST(:error AS text)) AS text)
    FROM released
)
SELECT key FROM released
 UNION ALL
SELECT key
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND key = :key
   AND token = CAST(:token AS bigint)
   AND owner = :owner
   AND state = 'free'
   AND NOT EXISTS (SELECT 1 FROM released)

-- name: claim_renew
-- Each under its own (token, owner); rows in the order of the key, or two batches deadlock.
WITH held AS MATERIALIZED (
  SELECT l.kind, l.scope, l.key, given.lease
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS given(kind text, scope text, key text, token bigint, owner text, lease bigint)
    JOIN {schema}ledger AS l
      ON l.kind = given.kind
     AND l.scope = given.scope
     AND l.key = given.key
     AND l.token = given.token
     AND l.owner = given.owner
     AND l.state IN ('claimed', 'firing')
   ORDER BY l.kind, l.scope, l.key
     FOR NO KEY UPDATE OF l
)
UPDATE {schema}ledger AS l
   SET claim_until = {now} + held.lease
  FROM held
 WHERE l.kind = held.kind
   AND l.scope = held.scope
   AND l.key = held.key
RETURNING l.owner

-- name: claim_read
SELECT kind, scope, key, state, token, owner, attempt, claimed, claim_until, error, {now}
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :scope
   AND key IN (SELECT jsonb_array_elements_text(CAST(:keys AS jsonb)))
   AND run_id = 0
 ORDER BY key

-- name: claim_listed
SELECT kind, scope, key, state, token, owner, attempt, claimed, claim_until, error, {now}
  FROM {schema}ledger
 WHERE kind = :kind
   AND (CAST(:scope AS text) = '' OR scope = :scope)
   AND run_id = 0
   AND (CAST(:lapsed AS integer) = 0
        OR (state IN ('claimed', 'firing') AND claim_until <= {now}))
 ORDER BY claimed DESC, scope, key
 LIMIT CAST(:limit AS bigint)
