-- name: schedule_read
-- why: json_each
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision, s.dynamic, s.args, s.queue, s.priority,
       s.on_loss
  FROM {schema}schedule AS s
 WHERE s.name IN (SELECT value FROM json_each(:names))
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0, 0, '', '', 0, ''
 ORDER BY 2

-- name: schedule_live_definitions
-- why: json_each
SELECT declared.key, declared.value
  FROM {schema}replica AS r, json_each(r.schedules) AS declared
 WHERE r.dead_at = 0
   AND declared.key IN (SELECT value FROM json_each(:names))

-- name: schedule_define
-- why: no data-modifying CTEs
-- answer
INSERT INTO {schema}schedule AS s (name, job, timing, policy, definition, version, superseded,
                                   next_fire, missed, args, queue, priority, on_loss, changed)
SELECT :name, :job, :timing, :policy, :definition, :version, :superseded, :next_fire,
       :missed_count, :args, :queue, :priority, :on_loss, {now}
 WHERE :revision = 0
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
       last = CASE WHEN EXCLUDED.missed > 0 THEN max(s.last, s.next_fire) ELSE s.last END,
       args = EXCLUDED.args,
       queue = EXCLUDED.queue,
       priority = EXCLUDED.priority,
       on_loss = EXCLUDED.on_loss,
       broken = '',
       revision = s.revision + 1,
       changed = EXCLUDED.changed
 WHERE s.revision = :revision
   AND s.dynamic = 0
RETURNING name
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
SELECT {now}, 'schedule.defined', job, '', name, definition
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name
 UNION ALL
SELECT {now}, 'tick.missed', job, '', name, :missed
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name
   AND :missed <> ''

-- name: schedule_put
-- why: no data-modifying CTEs, json_each; what is refused is left out of a table of this connection
CREATE TEMP TABLE IF NOT EXISTS {schema}put (name TEXT PRIMARY KEY, given TEXT)
-- then
DELETE FROM temp.{schema}put
-- then
INSERT INTO temp.{schema}put (name, given)
SELECT json_extract(b.value, '$.name'), b.value
  FROM json_each(:batch) AS b
  LEFT JOIN {schema}schedule AS s ON s.name = json_extract(b.value, '$.name')
 WHERE CASE WHEN s.name IS NULL THEN json_extract(b.value, '$.revision') = 0
            ELSE s.dynamic = 1 AND s.revision = json_extract(b.value, '$.revision') END
-- then
INSERT INTO {schema}schedule AS s (name, job, timing, policy, definition, version, superseded,
                                   next_fire, missed, args, queue, priority, on_loss, dynamic,
                                   revision, changed)
SELECT name, json_extract(given, '$.job'), json_extract(given, '$.timing'),
       json_extract(given, '$.policy'), json_extract(given, '$.definition'), '', '[]',
       json_extract(given, '$.next_fire'), json_extract(given, '$.missed_count'),
       json_extract(given, '$.args'), json_extract(given, '$.queue'),
       json_extract(given, '$.priority'), json_extract(given, '$.on_loss'), 1,
       json_extract(given, '$.revision') + 1, {now}
  FROM temp.{schema}put
 WHERE true
    ON CONFLICT (name) DO UPDATE
   SET job = EXCLUDED.job,
       timing = EXCLUDED.timing,
       policy = EXCLUDED.policy,
       definition = EXCLUDED.definition,
       next_fire = EXCLUDED.next_fire,
       missed = s.missed + EXCLUDED.missed,
       last = CASE WHEN EXCLUDED.missed > 0 THEN max(s.last, s.next_fire) ELSE s.last END,
       args = EXCLUDED.args,
       queue = EXCLUDED.queue,
       priority = EXCLUDED.priority,
       on_loss = EXCLUDED.on_loss,
       broken = '',
       revision = EXCLUDED.revision,
       changed = EXCLUDED.changed
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
SELECT {now}, 'schedule.defined', json_extract(given, '$.job'), '', name,
       json_extract(given, '$.definition')
  FROM temp.{schema}put
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
SELECT {now}, 'tick.missed', json_extract(given, '$.job'), '', name, json_extract(given, '$.missed')
  FROM temp.{schema}put
 WHERE json_extract(given, '$.missed') <> ''
-- then
-- answer
SELECT name FROM temp.{schema}put ORDER BY name

-- name: schedule_broken
-- why: no data-modifying CTEs
-- answer
UPDATE {schema}schedule
   SET broken = :why,
       revision = revision + 1
 WHERE name = :name
   AND revision = :revision
RETURNING name
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
SELECT {now}, 'schedule.broken', job, '', name, :why
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name

-- name: schedule_pause
-- why: no data-modifying CTEs; the event is written first, from what the next step will find
INSERT INTO {schema}event (at, kind, job, key, schedule)
SELECT {now}, 'schedule.paused', job, '', name
  FROM {schema}schedule
 WHERE name = :name
   AND paused = 0
-- then
UPDATE {schema}schedule
   SET paused = 1,
       revision = revision + 1,
       changed = {now}
 WHERE name = :name
   AND paused = 0
-- then
-- answer
SELECT name FROM {schema}schedule WHERE name = :name AND paused = 1

-- name: schedule_resume
-- why: no data-modifying CTEs
-- answer
UPDATE {schema}schedule
   SET paused = 0,
       last = max(last, :last),
       next_fire = :next_fire,
       missed = missed + :missed_count,
       revision = revision + 1,
       changed = {now}
 WHERE name = :name
   AND paused = 1
   AND revision = :revision
RETURNING name
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule, detail)
SELECT {now}, 'schedule.resumed', job, '', name, ''
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name
 UNION ALL
SELECT {now}, 'tick.missed', job, '', name, :missed
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name
   AND :missed <> ''

-- name: schedule_delete
-- why: no data-modifying CTEs, json_each; the event is written first, from what the next step finds
INSERT INTO {schema}event (at, kind, job, key, schedule)
SELECT {now}, 'schedule.deleted', s.job, '', s.name
  FROM {schema}schedule AS s
 WHERE s.name = :name
   AND (s.dynamic = 1
        OR NOT EXISTS (SELECT 1
                         FROM {schema}replica AS r, json_each(r.schedules) AS declared
                        WHERE r.dead_at = 0 AND declared.key = s.name))
-- then
-- answer
DELETE FROM {schema}schedule AS s
 WHERE s.name = :name
   AND (s.dynamic = 1
        OR NOT EXISTS (SELECT 1
                         FROM {schema}replica AS r, json_each(r.schedules) AS declared
                        WHERE r.dead_at = 0 AND declared.key = s.name))
RETURNING name
