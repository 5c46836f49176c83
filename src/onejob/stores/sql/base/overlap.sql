-- name: run_cancel
-- Whoever has locked the row decides what becomes of it: it is skipped, and asked for in a row of
-- its own. A running run ends under its own token, so that whatever its holder still sends finds no
-- row; one that is not running under a fresh one. What waits behind it is scheduled.
WITH given AS (
  SELECT CAST(jsonb_array_elements_text(CAST(:ids AS jsonb)) AS bigint) AS id
), held AS MATERIALIZED (
  SELECT r.*, COALESCE(cancel.why, :why) AS reason
    FROM {schema}run AS r
    LEFT JOIN {schema}cancel AS cancel ON cancel.run_id = r.id
   WHERE r.id IN (SELECT id FROM given)
   ORDER BY r.id
     FOR NO KEY UPDATE OF r SKIP LOCKED
), ended AS (
  INSERT INTO {schema}history (id, token, job, key, kind, keyed, queue, priority, due, wanted,
                               created, attempt, deaths, interrupted, replica, started, ended,
                               keep_until, outcome, on_loss, schedule, fire_time, args, error,
                               progress)
  SELECT id, CASE WHEN state = 'running' THEN token ELSE nextval('{schema}token') END, job, key,
         kind, keyed, queue, priority, due, wanted, created, attempt, deaths, interrupted, replica,
         started, {now}, {now} + CAST(:keep AS bigint), 'cancelled', on_loss, schedule, fire_time,
         args, error, progress
    FROM held
), gone AS (
  DELETE FROM {schema}run AS r
   USING held
   WHERE r.id = held.id
), answered AS (
  DELETE FROM {schema}cancel
   WHERE run_id IN (SELECT id FROM given)
     AND (run_id IN (SELECT id FROM held)
          OR NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = run_id))
), asked AS (
  INSERT INTO {schema}cancel (run_id, asked, why)
  SELECT r.id, {now}, :why
    FROM {schema}run AS r
   WHERE r.id IN (SELECT id FROM given)
     AND r.id NOT IN (SELECT id FROM held)
   ORDER BY r.id
      ON CONFLICT (run_id) DO NOTHING
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
  SELECT {now}, 'run.cancelled', job, key, id, token, replica, schedule,
         CAST(jsonb_build_object('state', state, 'why', reason) AS text)
    FROM held
   ORDER BY id
), freed AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         behind = 0,
         due = GREATEST(r.due, {now})
    FROM (SELECT DISTINCT schedule FROM held WHERE schedule <> '') AS free
   CROSS JOIN LATERAL (SELECT id
                         FROM {schema}run
                        WHERE schedule = free.schedule
                          AND state = 'waiting'
                          AND behind > 0
                          AND id NOT IN (SELECT id FROM held)
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
                        AND other.id NOT IN (SELECT id FROM held))
  RETURNING r.id
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM held WHERE state = 'running')
      OR EXISTS (SELECT 1 FROM freed)
)
SELECT id, 'ended'
  FROM held
 WHERE (SELECT count(*) FROM woken) >= 0
 UNION ALL
SELECT r.id, 'asked'
  FROM {schema}run AS r
 WHERE r.id IN (SELECT id FROM given)
   AND r.id NOT IN (SELECT id FROM held)

-- name: run_cancels
SELECT run_id
  FROM {schema}cancel
 ORDER BY run_id
 LIMIT CAST(:limit AS bigint)

-- name: run_recalled
SELECT h.id, h.token, h.replica
  FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS mine(id bigint, token bigint)
  JOIN {schema}history AS h
    ON h.id = mine.id
   AND h.token = mine.token
 WHERE h.outcome = 'cancelled'
 ORDER BY h.id

-- name: run_release
-- Only what nothing is in the way of any more: two runs that ended at the same moment did not see
-- each other go, and a run that was parked frees nobody.
WITH free AS MATERIALIZED (
  SELECT schedule, min(id) AS id
    FROM {schema}run
   WHERE state = 'waiting'
     AND behind > 0
   GROUP BY schedule
), picked AS MATERIALIZED (
  SELECT r.id
    FROM free
    JOIN {schema}run AS r
      ON r.id = free.id
     AND r.state = 'waiting'
   WHERE NOT EXISTS (SELECT 1
                       FROM {schema}run AS other
                      WHERE other.schedule = free.schedule
                        AND other.schedule <> ''
                        AND other.behind = 0
                        AND other.state IN ('scheduled', 'running', 'waiting'))
   ORDER BY r.id
     FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE {schema}run AS r
   SET state = 'scheduled',
       behind = 0,
       due = GREATEST(r.due, {now})
  FROM picked
 WHERE r.id = picked.id
RETURNING r.id

-- name: run_late
-- Told once: the mark turns negative as it is told.
WITH picked AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE expect_by > 0
     AND expect_by <= {now}
   ORDER BY id
   LIMIT CAST(:limit AS bigint)
     FOR NO KEY UPDATE SKIP LOCKED
), marked AS (
  UPDATE {schema}run AS r
     SET expect_by = -r.expect_by
    FROM picked
   WHERE r.id = picked.id
     AND r.expect_by > 0
  RETURNING r.id, r.job, r.key, r.token, r.replica, r.schedule, r.state, -r.expect_by AS expected
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
  SELECT {now}, 'run.late', job, key, id, token, replica, schedule,
         CAST(jsonb_build_object('expected', expected, 'state', state) AS text)
    FROM marked
   ORDER BY id
)
SELECT id, job, key, schedule, state, expected
  FROM marked
 ORDER BY id
