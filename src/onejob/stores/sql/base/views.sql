-- name: view_run
SELECT id, job, key, state, outcome, attempt, deaths, interrupted, token, replica, queue, priority,
       due, started, ended, error, result, progress, schedule, fire_time
  FROM (SELECT id, job, key, state, CAST(NULL AS text) AS outcome, attempt, deaths, interrupted,
               token, replica, queue, priority, due, started, 0 AS ended, error,
               CAST(NULL AS text) AS result, progress, schedule, fire_time, 1 AS live
          FROM {schema}run
         WHERE id = :id
         UNION ALL
        SELECT id, job, key, 'ended', outcome, attempt, deaths, interrupted,
               token, replica, queue, priority, due, started, ended, error,
               result, progress, schedule, fire_time, 0
          FROM {schema}history
         WHERE id = :id) AS any_state
 ORDER BY live DESC, token DESC
 LIMIT 1

-- name: view_call
-- What a run was asked to do. Its arguments stand here alone: no list of runs reads them.
SELECT job, args, created
  FROM (SELECT job, args, created, token, 1 AS live
          FROM {schema}run
         WHERE id = :id
         UNION ALL
        SELECT job, args, created, token, 0
          FROM {schema}history
         WHERE id = :id) AS any_state
 ORDER BY live DESC, token DESC
 LIMIT 1

-- name: view_runs
SELECT id, job, key, state, outcome, attempt, deaths, interrupted, token, replica, queue, priority,
       due, started, ended, error, result, progress, schedule, fire_time
  FROM ((SELECT id, job, key, state, CAST(NULL AS text) AS outcome, attempt, deaths, interrupted,
                token, replica, queue, priority, due, started, 0 AS ended, error,
                CAST(NULL AS text) AS result, progress, schedule, fire_time
           FROM {schema}run
          WHERE (CAST(:job AS text) = '' OR job = :job)
            AND (CAST(:key AS text) = '' OR key = :key)
            AND (CAST(:schedule AS text) = '' OR schedule = :schedule)
            AND (CAST(:queue AS text) = '' OR queue = :queue)
            AND (created >= CAST(:since AS bigint) OR started >= CAST(:since AS bigint))
            AND (CAST(:state AS text) = '' OR state = :state)
          ORDER BY id DESC
          LIMIT CAST(:limit AS bigint))
         UNION ALL
        (SELECT id, job, key, 'ended', outcome, attempt, deaths, interrupted,
                token, replica, queue, priority, due, started, ended, error,
                result, progress, schedule, fire_time
           FROM {schema}history
          WHERE (CAST(:job AS text) = '' OR job = :job)
            AND (CAST(:key AS text) = '' OR key = :key)
            AND (CAST(:schedule AS text) = '' OR schedule = :schedule)
            AND (CAST(:queue AS text) = '' OR queue = :queue)
            AND ended >= CAST(:since AS bigint)
            AND (CAST(:state AS text) IN ('', 'ended') OR outcome = :state)
          ORDER BY id DESC, token DESC
          LIMIT CAST(:limit AS bigint))) AS any_state
 ORDER BY id DESC, token DESC, ended
 LIMIT CAST(:limit AS bigint)

-- name: view_replicas
SELECT r.id, r.name, r.host, r.pid, r.version, r.jobs, r.schedules, r.started, r.lease_until,
       r.idle, r.dead_at,
       (SELECT count(*) FROM {schema}run WHERE replica = r.id AND state = 'running'), {now}
  FROM {schema}replica AS r
 ORDER BY CASE WHEN r.dead_at = 0 THEN 0 ELSE 1 END, r.started DESC, r.id

-- name: view_jobs
WITH declared AS (
  SELECT DISTINCT jsonb_array_elements_text(CAST(jobs AS jsonb)) AS job
    FROM {schema}replica
   WHERE dead_at = 0
), live AS (
  SELECT job,
         sum(CASE WHEN state = 'scheduled' THEN 1 ELSE 0 END) AS scheduled,
         sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END) AS running,
         sum(CASE WHEN state = 'parked' THEN 1 ELSE 0 END) AS parked,
         sum(CASE WHEN state = 'unknown' THEN 1 ELSE 0 END) AS unknown,
         sum(CASE WHEN state = 'waiting' THEN 1 ELSE 0 END) AS waiting
    FROM {schema}run
   GROUP BY job
), recent AS (
  SELECT job, max(ended) AS ended
    FROM (SELECT job, ended FROM {schema}history ORDER BY id DESC LIMIT 10000) AS newest
   GROUP BY job
), named AS (
  SELECT job FROM declared UNION SELECT job FROM live UNION SELECT job FROM recent
)
SELECT named.job, CAST(COALESCE(live.scheduled, 0) AS bigint),
       CAST(COALESCE(live.running, 0) AS bigint), CAST(COALESCE(live.parked, 0) AS bigint),
       CAST(COALESCE(live.unknown, 0) AS bigint), COALESCE(recent.ended, 0),
       (SELECT max(h.outcome)
          FROM (SELECT outcome, job, ended FROM {schema}history
                 ORDER BY id DESC LIMIT 10000) AS h
         WHERE h.job = named.job AND h.ended = recent.ended),
       CAST(COALESCE(live.waiting, 0) AS bigint)
  FROM named
  LEFT JOIN live ON live.job = named.job
  LEFT JOIN recent ON recent.job = named.job
 ORDER BY named.job

-- name: view_queues
SELECT queue,
       CAST(sum(CASE WHEN state = 'scheduled' AND due > {now} THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN state = 'scheduled' AND due <= {now} THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN state = 'waiting' THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN state = 'parked' THEN 1 ELSE 0 END) AS bigint),
       CAST(sum(CASE WHEN state = 'unknown' THEN 1 ELSE 0 END) AS bigint),
       COALESCE({now} - min(CASE WHEN state = 'scheduled' AND due <= {now} THEN due END), 0)
  FROM {schema}run
 GROUP BY queue
 ORDER BY queue

-- name: view_schedules
SELECT s.name, s.job, s.timing, s.policy, s.last, s.next_fire, s.paused, s.broken, s.dynamic,
       s.args,
       CASE WHEN s.dynamic = 1
            THEN (SELECT count(*)
                    FROM {schema}replica AS r
                   WHERE r.dead_at = 0
                     AND s.job IN (SELECT jsonb_array_elements_text(CAST(r.ticks AS jsonb))))
            ELSE (SELECT count(*)
                    FROM {schema}replica AS r
                   WHERE r.dead_at = 0
                     AND CAST(r.schedules AS jsonb) ->> s.name = s.definition) END,
       s.missed, s.lateness,
       (SELECT count(*)
          FROM {schema}run AS r
         WHERE r.schedule = s.name AND r.schedule <> '' AND r.expect_by < 0), {now}
  FROM (SELECT *
          FROM {schema}schedule
         WHERE (CAST(:name AS text) = '' OR name = :name)
           AND (CAST(:prefix AS text) = '' OR left(name, length(CAST(:prefix AS text))) = :prefix)
           AND (CAST(:job AS text) = '' OR job = :job)
           AND (CAST(:after AS text) = '' OR name > :after)
         ORDER BY name
         LIMIT CAST(:limit AS bigint)) AS s
 ORDER BY s.name

-- name: view_late_runs
SELECT id, job, key, schedule, state, -expect_by
  FROM {schema}run
 WHERE expect_by < 0
   AND expect_by <> 0
 ORDER BY expect_by DESC, id
 LIMIT CAST(:limit AS bigint)

-- name: view_events
SELECT id, at, kind, job, key, run_id, token, replica, schedule, detail
  FROM {schema}event
 WHERE (CAST(:run_id AS bigint) = 0 OR (run_id > 0 AND run_id = :run_id))
   AND (CAST(:schedule AS text) = '' OR (schedule <> '' AND schedule = :schedule))
   AND at >= CAST(:since AS bigint)
   AND (CAST(:until AS bigint) = 0 OR at <= CAST(:until AS bigint))
 ORDER BY id
 LIMIT CAST(:limit AS bigint)

-- name: view_breaks
SELECT id, at, kind, job, key, run_id, token, replica, schedule, detail
  FROM {schema}event
 WHERE kind = 'lock.broken'
   AND key = :name
 ORDER BY id DESC
 LIMIT CAST(:limit AS bigint)

-- name: view_effects_of
SELECT scope, key, state, token, owner, attempt, claimed, error
  FROM {schema}ledger
 WHERE kind = 'effect'
   AND scope = (SELECT job || '/' || key FROM {schema}run WHERE id = :run_id
                 UNION SELECT job || '/' || key FROM {schema}history WHERE id = :run_id)
   AND run_id = :run_id
 ORDER BY claimed, key
 LIMIT CAST(:limit AS bigint)

-- name: view_clock
SELECT {now}

-- name: view_ticks
-- From the unique key of each fire time to its run, and to those who lost it. Each is looked up by
-- itself: a join would rather read the whole ledger, and the whole history.
WITH asked AS MATERIALIZED (
  SELECT won.run_id, won.owner, won.claimed,
         (SELECT CAST(json_agg(e.replica ORDER BY e.id) AS text)
            FROM {schema}event AS e
           WHERE e.run_id = won.run_id
             AND e.run_id > 0
             AND e.kind = 'tick.lost') AS lost
    FROM jsonb_to_recordset(CAST(:keys AS jsonb)) AS fire(job text, key text)
   CROSS JOIN LATERAL (SELECT l.run_id, l.owner, l.claimed
                         FROM {schema}ledger AS l
                        WHERE l.kind = 'schedule'
                          AND l.scope = fire.job
                          AND l.key = fire.key
                          AND l.run_id > 0
                        LIMIT 1) AS won
)
SELECT asked.owner, asked.claimed, asked.lost, r.id, r.job, r.key, r.state,
       CAST(NULL AS text), r.attempt, r.deaths, r.interrupted, r.token, r.replica, r.queue,
       r.priority, r.due, r.started, 0, r.error, CAST(NULL AS text), r.progress, r.schedule,
       r.fire_time
  FROM asked
 CROSS JOIN LATERAL (SELECT * FROM {schema}run WHERE id = asked.run_id LIMIT 1) AS r
 UNION ALL
SELECT asked.owner, asked.claimed, asked.lost, h.id, h.job, h.key, 'ended',
       h.outcome, h.attempt, h.deaths, h.interrupted, h.token, h.replica, h.queue,
       h.priority, h.due, h.started, h.ended, h.error, h.result, h.progress, h.schedule,
       h.fire_time
  FROM asked
 CROSS JOIN LATERAL (SELECT *
                       FROM {schema}history
                      WHERE id = asked.run_id
                      ORDER BY token DESC
                      LIMIT 1) AS h
 WHERE NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = asked.run_id)

-- name: view_tick_events
SELECT id, at, kind, job, key, run_id, token, replica, schedule, detail
  FROM {schema}event
 WHERE schedule = :schedule
   AND schedule <> ''
   AND at >= CAST(:since AS bigint)
   AND kind IN ('tick.missed', 'tick.skipped', 'tick.queued', 'tick.known', 'run.late',
                'schedule.defined')
 ORDER BY at DESC, id DESC
 LIMIT CAST(:limit AS bigint)
