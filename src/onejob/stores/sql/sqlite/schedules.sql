-- name: schedule_read
-- why: json_each
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision
  FROM {schema}schedule AS s
 WHERE s.name IN (SELECT value FROM json_each(:names))
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0
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
                                   next_fire, changed)
SELECT :name, :job, :timing, :policy, :definition, :version, :superseded, :next_fire, {now}
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
       broken = '',
       revision = s.revision + 1,
       changed = EXCLUDED.changed
 WHERE s.revision = :revision
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

-- name: schedule_due
-- why: json_each
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision
  FROM (SELECT *
          FROM {schema}schedule
         WHERE next_fire > 0
           AND paused = 0
           AND broken = ''
           AND next_fire <= {now}
           AND name IN (SELECT value FROM json_each(:names))
         ORDER BY name
         LIMIT :limit) AS s
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, 0, 0, '', 0
 ORDER BY 2

-- name: schedule_tick
-- why: no data-modifying CTEs; what fires is worked out once into a table of this connection
CREATE TEMP TABLE IF NOT EXISTS {schema}fire (
  n INTEGER, name TEXT, fire_time INTEGER, job TEXT, key TEXT, args TEXT, queue TEXT,
  priority INTEGER, on_loss TEXT, run_id INTEGER, by INTEGER, answer TEXT
)
-- then
DELETE FROM temp.{schema}fire
-- then
INSERT INTO temp.{schema}fire (n, name, fire_time, job, key, args, queue, priority, on_loss, run_id,
                               by, answer)
SELECT n, name, fire_time, job, key, args, queue, priority, on_loss,
       (SELECT value FROM {schema}counter WHERE name = 'run_id') + fires.n,
       CASE WHEN fires.unless_live = 1
            THEN COALESCE((SELECT min(r.id) FROM {schema}run AS r
                            WHERE r.schedule = fires.name AND r.schedule <> ''
                              AND r.state IN ('scheduled', 'running')), 0)
            ELSE 0 END,
       'known'
  FROM (SELECT row_number() OVER (ORDER BY s.name, f.key) AS n, s.name,
               json_extract(f.value, '$.fire_time') AS fire_time,
               json_extract(f.value, '$.job') AS job, json_extract(f.value, '$.key') AS key,
               json_extract(f.value, '$.args') AS args, json_extract(f.value, '$.queue') AS queue,
               json_extract(f.value, '$.priority') AS priority,
               json_extract(f.value, '$.on_loss') AS on_loss,
               json_extract(b.value, '$.unless_live') AS unless_live
          FROM json_each(:batch) AS b
          JOIN {schema}schedule AS s
            ON s.name = json_extract(b.value, '$.name')
           AND s.revision = json_extract(b.value, '$.revision')
           AND s.paused = 0
           AND s.broken = ''
          JOIN json_each(b.value, '$.fires') AS f
         WHERE NOT EXISTS (SELECT 1 FROM json_each(b.value, '$.fires') AS early
                            WHERE json_extract(early.value, '$.fire_time') > {now})) AS fires
-- then
INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed)
SELECT 'schedule', job, key, 'claimed', :replica, run_id, {now}
  FROM temp.{schema}fire
 WHERE by = 0
    ON CONFLICT (kind, scope, key) DO NOTHING
-- then
UPDATE temp.{schema}fire AS f
   SET answer = CASE WHEN f.by > 0 THEN 'skipped' ELSE 'fired' END
 WHERE f.by > 0
    OR EXISTS (SELECT 1 FROM {schema}ledger AS l
                WHERE l.kind = 'schedule' AND l.scope = f.job AND l.key = f.key
                  AND l.run_id = f.run_id)
-- then
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, schedule, fire_time, args)
SELECT run_id, job, key, 'schedule', 1, queue, priority, 'scheduled', {now}, fire_time, {now},
       on_loss, name, fire_time, args
  FROM temp.{schema}fire
 WHERE answer = 'fired'
-- then
INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
SELECT {now}, 'tick.' || answer, job, key, by, :replica, name,
       json_object('fire_time', fire_time, 'by', by)
  FROM temp.{schema}fire
 WHERE answer <> 'fired'
-- then
INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
SELECT {now}, 'tick.missed', s.job, '', 0, :replica, s.name, json_extract(b.value, '$.missed')
  FROM json_each(:batch) AS b
  JOIN {schema}schedule AS s
    ON s.name = json_extract(b.value, '$.name')
   AND s.revision = json_extract(b.value, '$.revision')
   AND s.paused = 0
   AND s.broken = ''
 WHERE json_extract(b.value, '$.missed') <> ''
   AND NOT EXISTS (SELECT 1 FROM json_each(b.value, '$.fires') AS early
                    WHERE json_extract(early.value, '$.fire_time') > {now})
-- then
UPDATE {schema}schedule AS s
   SET last = max(s.last, json_extract(b.value, '$.last')),
       next_fire = json_extract(b.value, '$.next_fire'),
       revision = s.revision + 1
  FROM json_each(:batch) AS b
 WHERE s.name = json_extract(b.value, '$.name')
   AND s.revision = json_extract(b.value, '$.revision')
   AND s.paused = 0
   AND s.broken = ''
   AND NOT EXISTS (SELECT 1 FROM json_each(b.value, '$.fires') AS early
                    WHERE json_extract(early.value, '$.fire_time') > {now})
-- then
UPDATE {schema}counter
   SET value = value + (SELECT count(*) FROM temp.{schema}fire)
 WHERE name = 'run_id'
-- then
-- answer
SELECT name, fire_time, CASE WHEN answer = 'fired' THEN run_id ELSE by END, answer
  FROM temp.{schema}fire
 ORDER BY name, fire_time

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
-- why: no data-modifying CTEs
-- answer
UPDATE {schema}schedule
   SET paused = :paused,
       revision = revision + 1,
       changed = {now}
 WHERE name = :name
RETURNING name
-- then
INSERT INTO {schema}event (at, kind, job, key, schedule)
SELECT {now}, CASE WHEN paused = 1 THEN 'schedule.paused' ELSE 'schedule.resumed' END, job, '',
       name
  FROM {schema}schedule
 WHERE changes() > 0
   AND name = :name
