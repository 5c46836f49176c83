-- name: run_cancel
-- why: no data-modifying CTEs and no row locks: nobody has a row locked while this one writes, so
-- nothing is ever only asked for. The event is written first, from what the next steps will find.
-- answer
SELECT id, 'ended'
  FROM {schema}run
 WHERE id IN (SELECT value FROM json_each(:ids))
 ORDER BY id
-- then
INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
SELECT {now}, 'run.cancelled', r.job, r.key, r.id, r.token, r.replica, r.schedule,
       json_object('state', r.state,
                   'why', COALESCE((SELECT why FROM {schema}cancel WHERE run_id = r.id), :why))
  FROM {schema}run AS r
 WHERE r.id IN (SELECT value FROM json_each(:ids))
 ORDER BY r.id
-- then
INSERT INTO {schema}history (id, token, job, key, kind, keyed, queue, priority, due, wanted,
                             created, attempt, deaths, interrupted, replica, started, ended,
                             keep_until, outcome, on_loss, schedule, fire_time, args, error,
                             progress)
SELECT id,
       CASE WHEN state = 'running' THEN token
            ELSE (SELECT value FROM {schema}counter WHERE name = 'token')
               + row_number() OVER (ORDER BY id) END,
       job, key, kind, keyed, queue, priority, due, wanted, created, attempt, deaths, interrupted,
       replica, started, {now}, {now} + :keep, 'cancelled', on_loss, schedule, fire_time, args,
       error, progress
  FROM {schema}run
 WHERE id IN (SELECT value FROM json_each(:ids))
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0
-- then
DELETE FROM {schema}run
 WHERE id IN (SELECT value FROM json_each(:ids))
-- then
DELETE FROM {schema}cancel
 WHERE run_id IN (SELECT value FROM json_each(:ids))
-- then
UPDATE {schema}run
   SET state = 'scheduled',
       behind = 0,
       due = max(due, {now})
 WHERE id IN (SELECT first.id
                FROM (SELECT schedule, min(id) AS id
                        FROM {schema}run INDEXED BY {schema}run_behind
                       WHERE state = 'waiting' AND behind > 0
                       GROUP BY schedule) AS first
               WHERE NOT EXISTS (SELECT 1
                                   FROM {schema}run AS other
                                  WHERE other.schedule = first.schedule
                                    AND other.schedule <> ''
                                    AND other.behind = 0
                                    AND other.state IN ('scheduled', 'running', 'waiting')))

-- name: run_recalled
-- why: json_each
SELECT h.id, h.token, h.replica
  FROM json_each(:batch) AS mine
  JOIN {schema}history AS h
    ON h.id = json_extract(mine.value, '$.id')
   AND h.token = json_extract(mine.value, '$.token')
 WHERE h.outcome = 'cancelled'
 ORDER BY h.id

-- name: run_release
-- why: no row locks
UPDATE {schema}run
   SET state = 'scheduled',
       behind = 0,
       due = max(due, {now})
 WHERE id IN (SELECT first.id
                FROM (SELECT schedule, min(id) AS id
                        FROM {schema}run INDEXED BY {schema}run_behind
                       WHERE state = 'waiting' AND behind > 0
                       GROUP BY schedule) AS first
               WHERE NOT EXISTS (SELECT 1
                                   FROM {schema}run AS other
                                  WHERE other.schedule = first.schedule
                                    AND other.schedule <> ''
                                    AND other.behind = 0
                                    AND other.state IN ('scheduled', 'running', 'waiting')))
RETURNING id

-- name: run_late
-- why: no data-modifying CTEs; the event is written first, from what the next step will find
INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
SELECT {now}, 'run.late', job, key, id, token, replica, schedule,
       json_object('expected', expect_by, 'state', state)
  FROM (SELECT * FROM {schema}run INDEXED BY {schema}run_expect
         WHERE expect_by <> 0 AND expect_by > 0 AND expect_by <= {now}
         ORDER BY id LIMIT :limit)
-- then
-- answer
UPDATE {schema}run
   SET expect_by = -expect_by
 WHERE id IN (SELECT id FROM {schema}run INDEXED BY {schema}run_expect
               WHERE expect_by <> 0 AND expect_by > 0 AND expect_by <= {now}
               ORDER BY id LIMIT :limit)
RETURNING id, job, key, schedule, state, -expect_by
