-- name: schedule_read
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision, s.dynamic, s.args, s.queue, s.priority,
       s.on_loss
  FROM {schema}schedule AS s
 WHERE s.name IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0, 0, '', '', 0, ''
 ORDER BY 2

-- name: schedule_live_definitions
SELECT declared.key, declared.value
  FROM {schema}replica AS r
 CROSS JOIN LATERAL jsonb_each_text(CAST(r.schedules AS jsonb)) AS declared
 WHERE r.dead_at = 0
   AND declared.key IN (SELECT jsonb_array_elements_text(CAST(:names AS jsonb)))

-- name: schedule_define
-- The first definition wins its name; a later one replaces exactly the revision that was read, and
-- never what was put as data. The fire time that it leaves behind as missed is answered: it must not
-- fire under the next one, also where the store's clock is set back.
WITH stored AS (
  INSERT INTO {schema}schedule AS s (name, job, timing, policy, definition, version, superseded,
                                     next_fire, missed, args, queue, priority, on_loss, changed)
  SELECT :name, :job, :timing, :policy, :definition, :version, :superseded, :next_fire,
         CAST(:missed_count AS bigint), :args, :queue, CAST(:priority AS integer), :on_loss, {now}
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
         missed = s.missed + EXCLUDED.missed,
        last = CASE WHEN EXCLUDED.missed > 0 THEN greatest(s.last, s.next_fire) ELSE s.last END,
         args = EXCLUDED.args,
         queue = EXCLUDED.queue,
         priority = EXCLUDED.priority,
         on_loss = EXCLUDED.on_loss,
         broken = '',
         revision = s.revision + 1,
         changed = EXCLUDED.changed
   WHERE s.revision = CAST(:revision AS bigint)
     AND s.dynamic = 0
  RETURNING s.name, s.job, s.definition
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
  SELECT {now}, 'schedule.defined', job, '', name, definition FROM stored
   UNION ALL
  SELECT {now}, 'tick.missed', job, '', name, :missed FROM stored
   WHERE CAST(:missed AS text) <> ''
)
SELECT name FROM stored

-- name: schedule_put
-- What was put as data is replaced by data alone, and exactly at the revision that was read: the row
-- that is offered carries the next one. In name order, or two large batches deadlock.
WITH given AS (
  SELECT *
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS batch(name text, job text, timing text, policy text, definition text, next_fire bigint,
               args text, queue text, priority integer, on_loss text, missed text,
               missed_count bigint, revision bigint)
), stored AS (
  INSERT INTO {schema}schedule AS s (name, job, timing, policy, definition, version, superseded,
                                     next_fire, missed, args, queue, priority, on_loss, dynamic,
                                     revision, changed)
  SELECT name, job, timing, policy, definition, '', '[]', next_fire, missed_count, args, queue,
         priority, on_loss, 1, revision + 1, {now}
    FROM given
   WHERE revision = 0
      OR EXISTS (SELECT 1 FROM {schema}schedule AS old WHERE old.name = given.name)
   ORDER BY name
      ON CONFLICT (name) DO UPDATE
     SET job = EXCLUDED.job,
         timing = EXCLUDED.timing,
         policy = EXCLUDED.policy,
         definition = EXCLUDED.definition,
         next_fire = EXCLUDED.next_fire,
         missed = s.missed + EXCLUDED.missed,
        last = CASE WHEN EXCLUDED.missed > 0 THEN greatest(s.last, s.next_fire) ELSE s.last END,
         args = EXCLUDED.args,
         queue = EXCLUDED.queue,
         priority = EXCLUDED.priority,
         on_loss = EXCLUDED.on_loss,
         broken = '',
         revision = EXCLUDED.revision,
         changed = EXCLUDED.changed
   WHERE s.revision = EXCLUDED.revision - 1
     AND s.dynamic = 1
  RETURNING s.name, s.job, s.definition, s.next_fire
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
  SELECT {now}, 'schedule.defined', job, '', name, definition FROM stored
   UNION ALL
  SELECT {now}, 'tick.missed', stored.job, '', stored.name, given.missed
    FROM stored
    JOIN given ON given.name = stored.name
   WHERE given.missed <> ''
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM {schema}replica WHERE idle = 1 AND dead_at = 0)
     AND EXISTS (SELECT 1 FROM stored WHERE next_fire > 0 AND next_fire < {now} + 15000000)
)
SELECT name
  FROM stored
 WHERE (SELECT count(*) FROM woken) >= 0
 ORDER BY name

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
     SET paused = 1,
         revision = revision + 1,
         changed = {now}
   WHERE name = :name
     AND paused = 0
  RETURNING name, job
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule)
  SELECT {now}, 'schedule.paused', job, '', name
    FROM marked
)
SELECT name FROM marked
 UNION ALL
SELECT name FROM {schema}schedule WHERE name = :name AND paused = 1

-- name: schedule_resume
-- Only the revision from which was decided what has passed while it was paused.
WITH marked AS (
  UPDATE {schema}schedule
     SET paused = 0,
         last = GREATEST(last, CAST(:last AS bigint)),
         next_fire = :next_fire,
         missed = missed + CAST(:missed_count AS bigint),
         revision = revision + 1,
         changed = {now}
   WHERE name = :name
     AND paused = 1
     AND revision = CAST(:revision AS bigint)
  RETURNING name, job
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
  SELECT {now}, 'schedule.resumed', job, '', name, '' FROM marked
   UNION ALL
  SELECT {now}, 'tick.missed', job, '', name, :missed FROM marked
   WHERE CAST(:missed AS text) <> ''
)
SELECT name FROM marked

-- name: schedule_delete
-- Never one that live code declares: its next replica would put it back.
WITH gone AS (
  DELETE FROM {schema}schedule AS s
   WHERE s.name = :name
     AND (s.dynamic = 1
          OR NOT EXISTS (SELECT 1
                           FROM {schema}replica AS r
                          WHERE r.dead_at = 0
                            AND CAST(r.schedules AS jsonb) ->> s.name IS NOT NULL))
  RETURNING s.name, s.job
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, schedule)
  SELECT {now}, 'schedule.deleted', job, '', name FROM gone
)
SELECT name FROM gone
