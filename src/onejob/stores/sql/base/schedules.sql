-- name: schedule_read
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision
  FROM {schema}schedule AS s
 WHERE s.name IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0
 ORDER BY 2

-- name: schedule_live_definitions
SELECT declared.key, declared.value
  FROM {schema}replica AS r
 CROSS JOIN LATERAL jsonb_each_text(CAST(r.schedules AS jsonb)) AS declared
 WHERE r.dead_at = 0
   AND declared.key IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))

-- name: schedule_define
-- The first definition wins its name; a later one replaces exactly the revision that was read.
WITH stored AS (
  INSERT INTO {schema}schedule AS s (name, job, timing, policy, definition, version, superseded,
                                     next_fire, changed)
  SELECT :name, :job, :timing, :policy, :definition, :version, :superseded, :next_fire, {now}
   WHERE CAST(:revision AS bigint) = 0
      OR EXISTS (SELECT 1 FROM {schema}schedule WHERE name = :name)
      ON CONFLICT (name) DO UPDATE
     SET job = EXCLUDED.job,
         timing = EXCLUDED.timing,
         policy = EXCLUDED.policy,
         definition = EXCLUDED.definition,
         version = EXCLUDED.version,
         superseded = EXCLUDED.superseded,
         next_fire = EXCLUDED.next_fire,
         broken = '',
         revision = s.revision + 1,
         changed = EXCLUDED.changed
   WHERE s.revision = CAST(:revision AS bigint)
  RETURNING s.name, s.job, s.definition
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
  SELECT {now}, 'schedule.defined', job, '', name, definition FROM stored
   UNION ALL
  SELECT {now}, 'tick.missed', job, '', name, :missed FROM stored
   WHERE CAST(:missed AS text) <> ''
)
SELECT name FROM stored

-- name: schedule_due
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision
  FROM (SELECT *
          FROM {schema}schedule
         WHERE next_fire > 0
           AND paused = 0
           AND broken = ''
           AND next_fire <= {now}
           AND name IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))
         ORDER BY name
         LIMIT CAST(:limit AS bigint)) AS s
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0
 ORDER BY 2

-- name: schedule_tick
-- Exactly one scheduler finds the revision that it read. Rows in name order, or two schedulers
-- deadlock; SKIP LOCKED, or somebody's open pause blocks every schedule. A step with a fire time
-- later than now (the clock was set back since it was decided) changes nothing at all.
WITH given AS (
  SELECT *
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS batch(name text, revision bigint, last bigint, next_fire bigint, missed text,
               unless_live integer, fires jsonb)
), held AS MATERIALIZED (
  SELECT s.name, s.job, given.last, given.next_fire, given.missed, given.unless_live, given.fires
    FROM given
    JOIN {schema}schedule AS s
      ON s.name = given.name
     AND s.revision = given.revision
     AND s.paused = 0
     AND s.broken = ''
   WHERE NOT EXISTS (SELECT 1
                       FROM jsonb_to_recordset(given.fires) AS fire(fire_time bigint)
                      WHERE fire.fire_time > {now})
   ORDER BY s.name
     FOR NO KEY UPDATE OF s SKIP LOCKED
), advanced AS (
  UPDATE {schema}schedule AS s
     SET last = GREATEST(s.last, held.last),
         next_fire = held.next_fire,
         revision = s.revision + 1
    FROM held
   WHERE s.name = held.name
), fires AS MATERIALIZED (
  SELECT held.name, held.unless_live, fire.*, nextval('{schema}run_id') AS id
    FROM held
   CROSS JOIN LATERAL jsonb_to_recordset(held.fires)
      AS fire(key text, fire_time bigint, job text, args text, queue text, priority integer,
              on_loss text)
), blocked AS MATERIALIZED (
  SELECT fires.name, min(r.id) AS by
    FROM fires
    JOIN {schema}run AS r
      ON r.schedule = fires.name
     AND r.schedule <> ''
     AND r.state IN ('scheduled', 'running')
   WHERE fires.unless_live = 1
   GROUP BY fires.name
), named AS (
  INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed)
  SELECT 'schedule', job, key, 'claimed', :replica, id, {now}
    FROM fires
   WHERE name NOT IN (SELECT name FROM blocked)
   ORDER BY job, key
      ON CONFLICT (kind, scope, key) DO NOTHING
  RETURNING run_id
), made AS (
  INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                           on_loss, schedule, fire_time, args)
  SELECT id, job, key, 'schedule', 1, queue, priority, 'scheduled', {now}, fire_time, {now},
         on_loss, name, fire_time, args
    FROM fires
   WHERE id IN (SELECT run_id FROM named)
  RETURNING id
), answered AS MATERIALIZED (
  SELECT fires.name, fires.fire_time, fires.job, fires.key, fires.id,
         COALESCE(blocked.by, 0) AS by,
         CASE WHEN blocked.by IS NOT NULL THEN 'skipped'
              WHEN fires.id IN (SELECT id FROM made) THEN 'fired'
              ELSE 'known' END AS answer
    FROM fires
    LEFT JOIN blocked ON blocked.name = fires.name
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
  SELECT {now}, 'tick.' || answer, job, key, CASE WHEN answer = 'fired' THEN id ELSE by END,
         :replica, name, CAST(jsonb_build_object('fire_time', fire_time, 'by', by) AS text)
    FROM answered
   WHERE answer <> 'fired'
   UNION ALL
  SELECT {now}, 'tick.missed', job, '', 0, :replica, name, missed
    FROM held
   WHERE missed <> ''
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM {schema}replica WHERE idle = 1 AND dead_at = 0)
     AND EXISTS (SELECT 1 FROM made)
)
SELECT name, fire_time, CASE WHEN answer = 'fired' THEN id ELSE by END, answer
  FROM answered
 WHERE (SELECT count(*) FROM woken) >= 0
 ORDER BY name, fire_time

-- name: schedule_broken
WITH marked AS (
  UPDATE {schema}schedule
     SET broken = :why,
         revision = revision + 1
   WHERE name = :name
     AND revision = CAST(:revision AS bigint)
  RETURNING name, job
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
  SELECT {now}, 'schedule.broken', job, '', name, :why FROM marked
)
SELECT name FROM marked

-- name: schedule_pause
WITH marked AS (
  UPDATE {schema}schedule
     SET paused = CAST(:paused AS integer),
         revision = revision + 1,
         changed = {now}
   WHERE name = :name
  RETURNING name, job, paused
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule)
  SELECT {now}, CASE WHEN paused = 1 THEN 'schedule.paused' ELSE 'schedule.resumed' END, job, '',
         name
    FROM marked
)
SELECT name FROM marked
