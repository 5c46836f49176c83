-- name: run_by_key
SELECT run_id, fingerprint
  FROM {schema}ledger
 WHERE kind = :kind
   AND scope = :job
   AND key = :key

-- name: run_claim
-- Each probe is one index descent behind its mark. The token is drawn in SET, as the row changes
-- hands: drawn earlier (in VALUES or a CTE), a session that waited would come with an older number
-- and fence out the rightful holder. A replica that was declared dead claims nothing.
WITH picked AS MATERIALIZED (
  SELECT ahead.id
    FROM jsonb_to_recordset(CAST(:probes AS jsonb))
      AS probe(queue text, priority integer, due bigint, id bigint)
   CROSS JOIN LATERAL (
          SELECT r.id
            FROM {schema}run AS r
           WHERE r.state = 'scheduled'
             AND r.deaths = 0
             AND r.queue = probe.queue
             AND r.priority = probe.priority
             AND (r.due, r.id) > (probe.due, probe.id)
             AND r.due <= {now}
             AND r.job = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:jobs AS jsonb))))
           ORDER BY r.due, r.id
           LIMIT CAST(:limit AS bigint)
             FOR NO KEY UPDATE SKIP LOCKED) AS ahead
   LIMIT CAST(:limit AS bigint)
)
UPDATE {schema}run AS r
   SET state = 'running',
       attempt = r.attempt + 1,
       token = nextval('{schema}token'),
       replica = :replica,
       started = {now}
  FROM picked
 WHERE r.id = picked.id
   AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = :replica AND dead_at = 0)
RETURNING r.id, r.token, r.replica, r.job, r.key, r.kind, r.queue, r.priority, r.due, r.wanted,
          r.attempt, r.deaths, r.interrupted, r.args, r.schedule, r.fire_time, r.started

-- name: run_claim_alone
-- The same guard, for one run that has outlived a replica.
WITH picked AS MATERIALIZED (
  SELECT r.id
    FROM {schema}run AS r
   WHERE r.state = 'scheduled'
     AND r.deaths > 0
     AND r.queue IN (SELECT jsonb_array_elements_text(CAST(:queues AS jsonb)))
     AND r.due <= {now}
     AND r.job IN (SELECT jsonb_array_elements_text(CAST(:jobs AS jsonb)))
   ORDER BY r.due, r.id
   LIMIT 1
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}run AS r
   SET state = 'running',
       attempt = r.attempt + 1,
       token = nextval('{schema}token'),
       replica = :replica,
       started = {now}
  FROM picked
 WHERE r.id = picked.id
   AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = :replica AND dead_at = 0)
RETURNING r.id, r.token, r.replica, r.job, r.key, r.kind, r.queue, r.priority, r.due, r.wanted,
          r.attempt, r.deaths, r.interrupted, r.args, r.schedule, r.fire_time, r.started

-- name: run_held
SELECT id, token, replica, job, key, kind, queue, priority, due, wanted, attempt, deaths,
       interrupted, args, schedule, fire_time, started
  FROM {schema}run
 WHERE replica = :replica
   AND state = 'running'

-- name: run_settle
-- Only rows that are still running under this very (id, token, replica) move. Locked rows are
-- skipped, or one open fenced transaction would hold up a whole batch. Where a run of a schedule
-- gets out of the way, the first that waits behind it is scheduled in the same statement.
-- The state is compared so that no index offers itself: that of running rows is full of those that
-- ran a moment ago, and reading it took as long as writing the history did.
WITH given AS (
  SELECT *
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS batch(id bigint, token bigint, replica text, "to" text, delay bigint, outcome text,
               error text, result text, refund integer, deaths integer, interrupted integer)
), held AS MATERIALIZED (
  SELECT r.id, r.token, r.replica, r.job, r.key, r.kind, r.keyed, r.queue, r.priority, r.due,
         r.wanted, r.created, r.started, r.on_loss, r.schedule, r.fire_time, r.args, r.progress,
         r.attempt - COALESCE(given.refund, 0) AS attempt,
         r.deaths + COALESCE(given.deaths, 0) AS deaths,
         r.interrupted + COALESCE(given.interrupted, 0) AS interrupted,
         r.attempt AS tried, r.expect_by, given."to", given.delay, given.outcome, given.error,
         given.result
    FROM given
    JOIN {schema}run AS r
      ON r.id = given.id
     AND r.token = given.token
     AND r.replica = given.replica
     AND r.state || '' = 'running'
   ORDER BY r.id
     FOR NO KEY UPDATE OF r SKIP LOCKED
), ended AS (
  INSERT INTO {schema}history (id, token, job, key, kind, keyed, queue, priority, due, wanted,
                               created, attempt, deaths, interrupted, replica, started, ended,
                               keep_until, outcome, on_loss, schedule, fire_time, args, error,
                               result, progress)
  SELECT id, token, job, key, kind, keyed, queue, priority, due, wanted, created, attempt, deaths,
         interrupted, replica, started, {now}, {now} + CAST(:keep AS bigint), outcome, on_loss,
         schedule, fire_time, args, error, result, progress
    FROM held
   WHERE "to" = 'ended'
), gone AS (
  DELETE FROM {schema}run AS r
   USING held
   WHERE r.id = held.id
     AND held."to" = 'ended'
), moved AS (
  UPDATE {schema}run AS r
     SET state = held."to",
         due = GREATEST(r.due, {now} + COALESCE(held.delay, 0)),
         attempt = held.attempt,
         deaths = held.deaths,
         interrupted = held.interrupted,
         replica = '',
         error = COALESCE(held.error, r.error)
    FROM held
   WHERE r.id = held.id
     AND held."to" <> 'ended'
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
  SELECT {now}, 'attempt.' || outcome, job, key, id, token, replica, schedule,
         CAST(jsonb_build_object('attempt', tried, 'error', error, 'to', "to", 'delay', delay)
              AS text)
    FROM held
   WHERE outcome <> 'succeeded'
   UNION ALL
  SELECT {now}, 'run.late', job, key, id, token, replica, schedule,
         CAST(jsonb_build_object('expected', expect_by, 'state', "to") AS text)
    FROM held
   WHERE expect_by > 0
     AND expect_by < {now}
     AND "to" = 'ended'
   ORDER BY 5, 2
), freed AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         behind = 0,
         due = GREATEST(r.due, {now})
    FROM (SELECT DISTINCT schedule FROM held WHERE schedule <> '' AND "to" <> 'scheduled') AS free
   CROSS JOIN LATERAL (SELECT id
                         FROM {schema}run
                        WHERE schedule = free.schedule
                          AND state = 'waiting'
                          AND behind > 0
                        ORDER BY id
                        LIMIT 1) AS first
   WHERE r.id = first.id
     AND r.state = 'waiting'
     AND NOT EXISTS (SELECT 1
                       FROM {schema}run AS other
                      WHERE other.schedule = free.schedule
                        AND other.schedule <> ''
                        AND other.behind = 0
                        AND other.state IN ('scheduled', 'running', 'waiting')
                        AND other.id NOT IN (SELECT id FROM held WHERE "to" <> 'scheduled'))
  RETURNING r.id
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM freed)
     AND EXISTS (SELECT 1 FROM {schema}replica WHERE idle = 1 AND dead_at = 0)
)
SELECT id, token, replica
  FROM held
 WHERE (SELECT count(*) FROM woken) >= 0

-- name: run_standings
SELECT id, token, replica, state
  FROM {schema}run
 WHERE id IN (SELECT CAST(jsonb_array_elements_text(CAST(:ids AS jsonb)) AS bigint))
 UNION ALL
SELECT id, token, replica, 'ended'
  FROM {schema}history
 WHERE id IN (SELECT CAST(jsonb_array_elements_text(CAST(:ids AS jsonb)) AS bigint))

-- name: run_fence
-- The row lock outlives the statement: until the caller's transaction ends nobody can take the
-- run over or settle it. NO KEY UPDATE and not SHARE: two sharers that complete would deadlock.
-- The server ends the transaction if its holder falls silent, so that a frozen one cannot keep it.
SELECT id,
       CASE
         WHEN CAST(current_setting('idle_in_transaction_session_timeout') AS interval)
              BETWEEN interval '1 microsecond'
                  AND CAST(:idle_limit AS bigint) * interval '1 microsecond'
         THEN ''
         ELSE set_config('idle_in_transaction_session_timeout',
                         CAST(CAST(:idle_limit AS bigint) / 1000 AS text), true)
       END
  FROM {schema}run
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
   FOR NO KEY UPDATE

-- name: run_free
-- A look at a lock, not a lock: what a fence holds is skipped, and SHARE is given back at once.
SELECT id
  FROM {schema}run
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
   FOR SHARE SKIP LOCKED

-- name: run_progress
-- Skips the row while its own fenced transaction holds it: progress must not wait for itself.
UPDATE {schema}run
   SET progress = :note
 WHERE id IN (SELECT id
                FROM {schema}run
               WHERE id = :id
                 AND token = :token
                 AND replica = :replica
                 AND state = 'running'
                 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id

-- name: run_retry
-- Continues the same run from its latest end, while its key still belongs to it. The history row
-- is locked so that a purge cannot take the key away beside us.
WITH latest AS MATERIALIZED (
  SELECT *
    FROM {schema}history AS h
   WHERE h.id = :id
     AND h.token = (SELECT max(token) FROM {schema}history WHERE id = :id)
     FOR UPDATE
), back AS (
  INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                           attempt, token, on_loss, schedule, fire_time, args, error, progress)
  SELECT id, job, key, kind, keyed, queue, priority, 'scheduled', {now}, wanted, created,
         attempt, token, on_loss, schedule, fire_time, args, error, progress
    FROM latest AS l
   WHERE l.keyed = 0
      OR EXISTS (SELECT 1
                   FROM {schema}ledger
                  WHERE kind = l.kind
                    AND scope = l.job
                    AND key = l.key
                    AND run_id = l.id)
      ON CONFLICT (id) DO NOTHING
  RETURNING id, job, key, token, schedule
), freed AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         due = GREATEST(r.due, {now}),
         deaths = 0
   WHERE r.id = :id
     AND r.state IN ('parked', 'unknown')
  RETURNING r.id, r.job, r.key, r.token, r.schedule
), all_of_it AS (
  SELECT * FROM back UNION ALL SELECT * FROM freed
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, token, schedule)
  SELECT {now}, 'run.retried', job, key, id, token, schedule FROM all_of_it
)
SELECT id FROM all_of_it

-- name: run_wake
-- Only the run that this very attempt left unknown: not one that has ended, or has moved on, since.
UPDATE {schema}run
   SET state = 'scheduled',
       due = CASE WHEN due > {now} THEN due ELSE {now} END
 WHERE id = :id
   AND token = :token
   AND state = 'unknown'
RETURNING id

-- name: run_purge
-- A key goes with the last end of its run, never while the run lives or another end is kept.
WITH old AS MATERIALIZED (
  SELECT id, token, kind, job, key, keyed
    FROM {schema}history
   WHERE keep_until < {now}
   ORDER BY id, token
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
), keys AS (
  DELETE FROM {schema}ledger AS l
   USING old
   WHERE old.keyed = 1
     AND l.kind = old.kind
     AND l.scope = old.job
     AND l.key = old.key
     AND l.run_id = old.id
     AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = old.id)
     AND NOT EXISTS (SELECT 1 FROM {schema}history WHERE id = old.id AND keep_until >= {now})
), told AS (
  DELETE FROM {schema}event AS e
   USING old
   WHERE e.run_id > 0
     AND e.run_id = old.id
     AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = old.id)
     AND NOT EXISTS (SELECT 1 FROM {schema}history WHERE id = old.id AND keep_until >= {now})
)
DELETE FROM {schema}history AS h
 USING old
 WHERE h.id = old.id
   AND h.token = old.token
RETURNING h.id

-- name: run_discard
-- Only an end, never a run that lives. Its key is left to the purge, which looks again: a retry beside
-- us keeps the key, whatever becomes of the earlier end.
UPDATE {schema}history
   SET keep_until = 0
 WHERE id = :id
   AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = :id)
RETURNING id
