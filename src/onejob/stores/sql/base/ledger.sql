-- name: ledger_first
-- The unique key decides; whoever comes second waits for the first one's transaction to end.
INSERT INTO {schema}ledger (kind, scope, key, state, owner, claimed, kept_until)
VALUES (:kind, :scope, :key, 'done', :owner, {now}, {now} + CAST(:keep AS bigint))
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key

-- name: ledger_first_many
-- In the order of the keys, which is the same for all: who wants overlapping sets waits in a line.
INSERT INTO {schema}ledger (kind, scope, key, state, owner, claimed, kept_until)
SELECT :kind, :scope, given.key, 'done', :owner, {now}, {now} + CAST(:keep AS bigint)
  FROM jsonb_array_elements_text(CAST(:keys AS jsonb)) WITH ORDINALITY AS given (key, place)
 ORDER BY given.place
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key

-- name: ledger_first_in_run
-- The run row stays locked to the end of the transaction: a superseded attempt inserts nothing.
WITH held AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE id = :id
     AND token = :token
     AND replica = :replica
     AND state = 'running'
     FOR NO KEY UPDATE
)
INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, kept_until)
SELECT 'effect', :scope, :key, 'done', :replica, held.id, {now}, {now} + CAST(:keep AS bigint)
  FROM held
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key

-- name: effect_claim
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, claimed, claim_until, fingerprint)
VALUES ('effect', :scope, :key, 'claimed', nextval('{schema}token'), :owner, {now},
        CASE WHEN CAST(:claim_for AS bigint) = 0 THEN 0
             ELSE {now} + CAST(:claim_for AS bigint) END, :fingerprint)
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token

-- name: effect_claim_in_run
-- Under the run row's lock: a superseded attempt claims nothing.
WITH held AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE id = :id
     AND token = :token
     AND replica = :replica
     AND state = 'running'
     FOR NO KEY UPDATE
)
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, run_id, claimed, fingerprint)
SELECT 'effect', :scope, :key, 'claimed', nextval('{schema}token'), :owner, held.id, {now},
       :fingerprint
  FROM held
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token

-- name: effect_claim_many_in_run
-- As effect_claim_in_run for many keys of one scope, in key order, so that two batches with the
-- same keys cannot deadlock. A key that is there already is left out.
WITH held AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE id = :id
     AND token = :token
     AND replica = :replica
     AND state = 'running'
     FOR NO KEY UPDATE
)
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, run_id, claimed, fingerprint)
SELECT 'effect', :scope, given.key, 'claimed', nextval('{schema}token'), :owner, held.id, {now},
       given.fingerprint
  FROM held
 CROSS JOIN jsonb_to_recordset(CAST(:entries AS jsonb)) AS given(key text, fingerprint text)
 ORDER BY given.key
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key, token

-- name: effect_reclaim
-- From exactly the claim that was read, with a fresh token drawn in SET.
WITH held AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE id = :id
     AND token = :token
     AND replica = :replica
     AND state = 'running'
     FOR NO KEY UPDATE
)
UPDATE {schema}ledger
   SET token = nextval('{schema}token'),
       state = 'claimed',
       owner = :owner,
       run_id = CASE WHEN CAST(:id AS bigint) > 0 THEN CAST(:id AS bigint) ELSE run_id END,
       attempt = attempt + 1,
       claim_until = CASE WHEN CAST(:claim_for AS bigint) = 0 THEN 0
                          ELSE {now} + CAST(:claim_for AS bigint) END
 WHERE kind = 'effect'
   AND scope = :scope
   AND key = :key
   AND token = CAST(:held AS bigint)
   AND state IN ('claimed', 'unknown')
   AND (CAST(:id AS bigint) = 0 OR EXISTS (SELECT 1 FROM held))
RETURNING token

-- name: effect_record
-- Under the claim's own token: also from a superseded attempt, which knows the truth, as long as
-- nobody has reclaimed it. A run that waited for this outcome is scheduled again, but not one that
-- waits for a person because its replica was lost (on_loss 'unknown').
WITH recorded AS (
  UPDATE {schema}ledger
     SET state = :state,
         result = :result,
         error = :error,
         kept_until = CASE WHEN CAST(:state AS text) IN ('done', 'failed')
                           THEN {now} + CAST(:keep AS bigint) ELSE 0 END
   WHERE kind = 'effect'
     AND scope = :scope
     AND key = :key
     AND token = CAST(:token AS bigint)
  RETURNING key, run_id, state
), woken AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         due = GREATEST(r.due, {now})
    FROM recorded
   WHERE r.id = recorded.run_id
     AND recorded.run_id > 0
     AND recorded.state IN ('done', 'failed')
     AND r.state = 'unknown'
     AND NOT (r.on_loss = 'unknown' AND r.deaths > 0)
)
SELECT key FROM recorded

-- name: effect_record_many
-- As effect_record for many entries of one scope: each under its own claim's token, in key order.
-- Each entry is one descent of the index: with the scope as a constant, a planner that has not yet
-- heard how many entries a scope has walks through all of them for each batch.
WITH given AS MATERIALIZED (
  SELECT CAST(:scope AS text) AS scope, batch.*
    FROM jsonb_to_recordset(CAST(:entries AS jsonb))
      AS batch(key text, token bigint, state text, result text, error text)
   ORDER BY batch.key
), locked AS MATERIALIZED (
  SELECT given.*
    FROM given
   CROSS JOIN LATERAL (
          SELECT l.key
            FROM {schema}ledger AS l
           WHERE l.kind = 'effect'
             AND l.scope = given.scope
             AND l.key = given.key
             AND l.token = given.token
             FOR NO KEY UPDATE) AS held
), recorded AS (
  UPDATE {schema}ledger AS l
     SET state = locked.state,
         result = locked.result,
         error = locked.error,
         kept_until = CASE WHEN locked.state IN ('done', 'failed')
                           THEN {now} + CAST(:keep AS bigint) ELSE 0 END
    FROM locked
   WHERE l.kind = 'effect'
     AND l.scope = locked.scope
     AND l.key = locked.key
     AND l.token = locked.token
  RETURNING l.key, l.run_id, l.state
), woken AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         due = GREATEST(r.due, {now})
   WHERE r.id = ANY (ARRAY(SELECT run_id FROM recorded
                            WHERE run_id > 0 AND state IN ('done', 'failed')))
     AND r.state = 'unknown'
     AND NOT (r.on_loss = 'unknown' AND r.deaths > 0)
)
SELECT key FROM recorded

-- name: effect_release
WITH released AS (
  DELETE FROM {schema}ledger
   WHERE kind = 'effect'
     AND scope = :scope
     AND key = :key
     AND token = CAST(:token AS bigint)
     AND state IN ('claimed', 'unknown')
  RETURNING key, run_id
), woken AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         due = GREATEST(r.due, {now})
    FROM released
   WHERE r.id = released.run_id
     AND released.run_id > 0
     AND r.state = 'unknown'
     AND NOT (r.on_loss = 'unknown' AND r.deaths > 0)
)
SELECT key FROM released

-- name: effect_release_many
-- As effect_release for many entries of one scope.
WITH given AS MATERIALIZED (
  SELECT CAST(:scope AS text) AS scope, batch.*
    FROM jsonb_to_recordset(CAST(:entries AS jsonb)) AS batch(key text, token bigint)
   ORDER BY batch.key
), locked AS MATERIALIZED (
  SELECT given.*
    FROM given
   CROSS JOIN LATERAL (
          SELECT l.key
            FROM {schema}ledger AS l
           WHERE l.kind = 'effect'
             AND l.scope = given.scope
             AND l.key = given.key
             AND l.token = given.token
             FOR UPDATE) AS held
), released AS (
  DELETE FROM {schema}ledger AS l
   USING locked
   WHERE l.kind = 'effect'
     AND l.scope = locked.scope
     AND l.key = locked.key
     AND l.token = locked.token
     AND l.state IN ('claimed', 'unknown')
  RETURNING l.key, l.run_id
), woken AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         due = GREATEST(r.due, {now})
   WHERE r.id = ANY (ARRAY(SELECT run_id FROM released WHERE run_id > 0))
     AND r.state = 'unknown'
     AND NOT (r.on_loss = 'unknown' AND r.deaths > 0)
)
SELECT key FROM released

-- name: effect_read
-- One descent of the index for each key, whatever the planner believes of the scope's size.
SELECT found.*
  FROM jsonb_array_elements_text(CAST(:keys AS jsonb)) AS wanted(key)
 CROSS JOIN LATERAL (
        SELECT scope, key, state, token, owner, run_id, claimed, claim_until, fingerprint, result,
               error, attempt, {now}
          FROM {schema}ledger
         WHERE kind = 'effect'
           AND scope = :scope
           AND key = wanted.key
         LIMIT 1) AS found

-- name: effect_unsettled
SELECT scope, key, state, token, owner, run_id, claimed, claim_until, fingerprint, result, error,
       attempt, {now}
  FROM {schema}ledger
 WHERE kind = 'effect'
   AND state IN ('claimed', 'unknown')
 ORDER BY claimed, scope, key
 LIMIT CAST(:limit AS bigint)

-- name: ledger_purge
-- What ended (or was given back), and claims outside runs that nobody took over; never an effect
-- that is claimed or unknown, and never the key of a run, which is kept until 0.
-- MATERIALIZED: as a plain subquery it may be run again for each row, each time with a new limit.
WITH old AS MATERIALIZED (
  SELECT kind, scope, key
    FROM {schema}ledger
   WHERE kept_until > 0
     AND kept_until < {now}
     AND (state IN ('done', 'failed', 'free') OR claim_until BETWEEN 1 AND {now})
     AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = run_id)
   ORDER BY kind, scope, key
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}ledger AS l
 USING old
 WHERE l.kind = old.kind
   AND l.scope = old.scope
   AND l.key = old.key
RETURNING l.key
