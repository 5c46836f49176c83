-- name: view_jobs
-- why: json_each, and integer sums need no cast
WITH declared AS (
  SELECT DISTINCT j.value AS job FROM {schema}replica AS r, json_each(r.jobs) AS j
   WHERE r.dead_at = 0
), live AS (
  SELECT job,
         sum(state = 'scheduled') AS scheduled,
         sum(state = 'running') AS running,
         sum(state = 'parked') AS parked,
         sum(state = 'unknown') AS unknown,
         sum(state = 'waiting') AS waiting
    FROM {schema}run
   GROUP BY job
), newest AS (
  SELECT job, ended, outcome FROM {schema}history ORDER BY id DESC LIMIT 10000
), recent AS (
  SELECT job, max(ended) AS ended FROM newest GROUP BY job
), named AS (
  SELECT job FROM declared UNION SELECT job FROM live UNION SELECT job FROM recent
)
SELECT named.job, COALESCE(live.scheduled, 0), COALESCE(live.running, 0),
       COALESCE(live.parked, 0), COALESCE(live.unknown, 0), COALESCE(recent.ended, 0),
       (SELECT max(n.outcome) FROM newest AS n
         WHERE n.job = named.job AND n.ended = recent.ended),
       COALESCE(live.waiting, 0)
  FROM named
  LEFT JOIN live ON live.job = named.job
  LEFT JOIN recent ON recent.job = named.job
 ORDER BY named.job

-- name: view_schedules
-- why: json_each, substr
SELECT s.name, s.job, s.timing, s.policy, s.last, s.next_fire, s.paused, s.broken, s.dynamic,
       s.args,
       CASE WHEN s.dynamic = 1
            THEN (SELECT count(*)
                    FROM {schema}replica AS r, json_each(r.ticks) AS known
                   WHERE r.dead_at = 0 AND known.value = s.job)
            ELSE (SELECT count(*)
                    FROM {schema}replica AS r, json_each(r.schedules) AS declared
                   WHERE r.dead_at = 0 AND declared.key = s.name
                     AND declared.value = s.definition) END,
       s.missed, s.lateness,
       (SELECT count(*)
          FROM {schema}run AS r
         WHERE r.schedule = s.name AND r.schedule <> '' AND r.expect_by < 0), {now}
  FROM (SELECT *
          FROM {schema}schedule
         WHERE (:name = '' OR name = :name)
           AND (:prefix = '' OR substr(name, 1, length(:prefix)) = :prefix)
           AND (:job = '' OR job = :job)
           AND (:after = '' OR name > :after)
         ORDER BY name
         LIMIT :limit) AS s
 ORDER BY s.name

-- name: view_runs
-- why: LIMIT inside a compound needs a subquery on each side
SELECT id, job, key, state, outcome, attempt, deaths, interrupted, token, replica, queue, priority,
       due, started, ended, error, result, progress, schedule, fire_time
  FROM (SELECT * FROM (
          SELECT id, job, key, state, NULL AS outcome, attempt, deaths, interrupted, token, replica,
                 queue, priority, due, started, 0 AS ended, error, NULL AS result, progress,
                 schedule, fire_time
            FROM {schema}run
           WHERE (:job = '' OR job = :job)
             AND (:key = '' OR key = :key)
             AND (:schedule = '' OR schedule = :schedule)
             AND (:queue = '' OR queue = :queue)
             AND (created >= :since OR started >= :since)
             AND (:state = '' OR state = :state)
           ORDER BY id DESC
           LIMIT :limit)
         UNION ALL
        SELECT * FROM (
          SELECT id, job, key, 'ended', outcome, attempt, deaths, interrupted, token, replica,
                 queue, priority, due, started, ended, error, result, progress, schedule, fire_time
            FROM {schema}history
           WHERE (:job = '' OR job = :job)
             AND (:key = '' OR key = :key)
             AND (:schedule = '' OR schedule = :schedule)
             AND (:queue = '' OR queue = :queue)
             AND ended >= :since
             AND (:state IN ('', 'ended') OR outcome = :state)
           ORDER BY id DESC, token DESC
           LIMIT :limit))
 ORDER BY id DESC, token DESC, ended
 LIMIT :limit

-- name: view_ticks
-- why: json_each and json_group_array, no LATERAL, NULL needs no cast
WITH asked AS MATERIALIZED (
  SELECT l.run_id, l.owner, l.claimed,
         (SELECT json_group_array(e.replica)
            FROM (SELECT replica
                    FROM {schema}event
                   WHERE run_id = l.run_id
                     AND run_id > 0
                     AND kind = 'tick.lost'
                   ORDER BY id) AS e) AS lost
    FROM json_each(:keys) AS fire
   CROSS JOIN {schema}ledger AS l
      ON l.kind = 'schedule'
     AND l.scope = json_extract(fire.value, '$.job')
     AND l.key = json_extract(fire.value, '$.key')
     AND l.run_id > 0
)
SELECT asked.owner, asked.claimed, asked.lost, r.id, r.job, r.key, r.state,
       NULL, r.attempt, r.deaths, r.interrupted, r.token, r.replica, r.queue,
       r.priority, r.due, r.started, 0, r.error, NULL, r.progress, r.schedule,
       r.fire_time
  FROM asked
 CROSS JOIN {schema}run AS r ON r.id = asked.run_id
 UNION ALL
SELECT asked.owner, asked.claimed, asked.lost, h.id, h.job, h.key, 'ended',
       h.outcome, h.attempt, h.deaths, h.interrupted, h.token, h.replica, h.queue,
       h.priority, h.due, h.started, h.ended, h.error, h.result, h.progress, h.schedule,
       h.fire_time
  FROM asked
 CROSS JOIN {schema}history AS h
    ON h.id = asked.run_id
   AND h.token = (SELECT max(token) FROM {schema}history WHERE id = asked.run_id)
 WHERE NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = asked.run_id)
