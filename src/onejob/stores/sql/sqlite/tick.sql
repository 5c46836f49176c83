-- name: schedule_due
-- why: json_each, no LATERAL: an index descent for each job known here, in the order it is given
WITH named AS (
  SELECT *
    FROM {schema}schedule
   WHERE name IN (SELECT value FROM json_each(:names))
     AND dynamic = 0
     AND next_fire > 0
     AND paused = 0
     AND broken = ''
), put AS (
  SELECT s.*
    FROM json_each(:jobs) AS known
   CROSS JOIN {schema}schedule AS s INDEXED BY {schema}schedule_dynamic
   WHERE s.dynamic = 1
     AND s.next_fire > 0
     AND s.paused = 0
     AND s.broken = ''
     AND s.job = known.value
     AND s.next_fire <= {now}
), found AS (
  SELECT * FROM named WHERE next_fire <= {now} UNION ALL SELECT * FROM put
), ahead AS (
  SELECT next_fire FROM named WHERE next_fire > {now}
   UNION ALL
  SELECT (SELECT min(s.next_fire)
            FROM {schema}schedule AS s INDEXED BY {schema}schedule_dynamic
           WHERE s.dynamic = 1
             AND s.next_fire > 0
             AND s.paused = 0
             AND s.broken = ''
             AND s.job = known.value
             AND s.next_fire > {now})
    FROM json_each(:jobs) AS known
)
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision, s.dynamic, s.args, s.queue, s.priority,
       s.on_loss
  FROM (SELECT *
          FROM found
         ORDER BY next_fire, name
         LIMIT :limit
        OFFSET :skip) AS s
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, COALESCE((SELECT min(next_fire) FROM ahead), 0), 0,
       '', 0, 0, '', '', 0, ''
 ORDER BY 2

-- name: schedule_tick
-- why: no data-modifying CTEs; what fires is worked out once into a table of this connection
CREATE TEMP TABLE IF NOT EXISTS {schema}fire (
  n INTEGER, name TEXT, fire_time INTEGER, due INTEGER, expect INTEGER, job TEXT, key TEXT,
  args TEXT, queue TEXT, priority INTEGER, on_loss TEXT, overlap TEXT, run_id INTEGER, by INTEGER,
  answer TEXT
)
-- then
DELETE FROM temp.{schema}fire
-- then
INSERT INTO temp.{schema}fire (n, name, fire_time, due, expect, job, key, args, queue, priority,
                               on_loss, overlap, run_id, by, answer)
SELECT n, name, fire_time, due, expect, job, key, args, queue, priority, on_loss, overlap,
       (SELECT value FROM {schema}counter WHERE name = 'run_id') + fires.n,
       CASE WHEN fires.overlap <> 'allow'
            THEN COALESCE((SELECT min(r.id) FROM {schema}run AS r
                            WHERE r.schedule = fires.name AND r.schedule <> ''
                              AND r.state IN ('scheduled', 'running', 'waiting')), 0)
            ELSE 0 END,
       'known'
  FROM (SELECT row_number() OVER (ORDER BY s.name, json_extract(f.value, '$.fire_time'), f.key) AS n,
               s.name,
               json_extract(f.value, '$.fire_time') AS fire_time,
               json_extract(f.value, '$.due') AS due, json_extract(f.value, '$.expect') AS expect,
               json_extract(f.value, '$.job') AS job, json_extract(f.value, '$.key') AS key,
               json_extract(f.value, '$.args') AS args, json_extract(f.value, '$.queue') AS queue,
               json_extract(f.value, '$.priority') AS priority,
               json_extract(f.value, '$.on_loss') AS on_loss,
               json_extract(b.value, '$.overlap') AS overlap
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
    OR overlap <> 'skip'
    ON CONFLICT (kind, scope, key) DO NOTHING
-- then
UPDATE temp.{schema}fire AS f
   SET answer = CASE WHEN f.overlap = 'skip' AND f.by > 0 THEN 'skipped' ELSE 'fired' END
 WHERE (f.overlap = 'skip' AND f.by > 0)
    OR EXISTS (SELECT 1 FROM {schema}ledger AS l
                WHERE l.kind = 'schedule' AND l.scope = f.job AND l.key = f.key
                  AND l.run_id = f.run_id)
-- then
UPDATE temp.{schema}fire
   SET by = 0
 WHERE answer = 'known'
-- then
INSERT INTO {schema}cancel (run_id, asked, why)
SELECT DISTINCT r.id, {now}, 'overlap'
  FROM temp.{schema}fire AS f
  JOIN {schema}run AS r
    ON r.schedule = f.name
   AND r.schedule <> ''
   AND r.state IN ('scheduled', 'running', 'waiting')
 WHERE f.answer = 'fired'
   AND f.overlap = 'cancel'
    ON CONFLICT (run_id) DO NOTHING
-- then
UPDATE temp.{schema}fire AS f
   SET by = (SELECT min(first.run_id) FROM temp.{schema}fire AS first
              WHERE first.name = f.name AND first.answer = 'fired')
 WHERE f.answer = 'fired'
   AND f.overlap IN ('queue', 'cancel')
   AND f.by = 0
-- then
UPDATE temp.{schema}fire
   SET answer = CASE WHEN by = run_id THEN 'fired' ELSE 'queued' END,
       by = CASE WHEN by = run_id THEN 0 ELSE by END
 WHERE answer = 'fired'
   AND overlap IN ('queue', 'cancel')
-- then
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, schedule, fire_time, args, behind, expect_by)
SELECT run_id, job, key, 'schedule', 1, queue, priority,
       CASE WHEN answer = 'queued' THEN 'waiting' ELSE 'scheduled' END, max(due, {now}), fire_time,
       {now}, on_loss, name, fire_time, args, CASE WHEN answer = 'queued' THEN by ELSE 0 END,
       CASE WHEN expect > 0 THEN fire_time + expect ELSE 0 END
  FROM temp.{schema}fire
 WHERE answer IN ('fired', 'queued')
-- then
INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
SELECT {now}, 'tick.' || answer, job, key, CASE WHEN answer = 'queued' THEN run_id ELSE by END,
       :replica, name, json_object('fire_time', fire_time, 'by', by)
  FROM temp.{schema}fire
 WHERE answer <> 'fired'
 ORDER BY name, fire_time, n
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
       missed = s.missed + json_extract(b.value, '$.missed_count'),
       lateness = CASE WHEN json_extract(b.value, '$.last') > s.last
                       THEN {now} - json_extract(b.value, '$.last')
                       ELSE s.lateness END,
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
SELECT name, fire_time, CASE WHEN answer IN ('fired', 'queued') THEN run_id ELSE by END, answer
  FROM temp.{schema}fire
 ORDER BY name, fire_time

-- name: schedule_lost
-- why: json_each
INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
SELECT {now}, 'tick.lost', won.scope, won.key, won.run_id, :replica,
       json_extract(lost.value, '$.name'),
       json_object('fire_time', json_extract(lost.value, '$.fire_time'), 'by', won.owner)
  FROM json_each(:batch) AS lost
  JOIN {schema}ledger AS won
    ON won.kind = 'schedule'
   AND won.scope = json_extract(lost.value, '$.job')
   AND won.key = json_extract(lost.value, '$.key')
   AND won.run_id > 0
   AND won.owner <> :replica
 WHERE NOT EXISTS (SELECT 1
                     FROM {schema}event
                    WHERE run_id = won.run_id
                      AND run_id > 0
                      AND kind = 'tick.lost'
                      AND replica = :replica)
 ORDER BY won.run_id
RETURNING run_id
