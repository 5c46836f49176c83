-- name: replica_join
-- The same id joining again (a lost reply) changes nothing; a dead one stays dead.
INSERT INTO {schema}replica AS r (id, name, host, pid, version, jobs, schedules, ticks, started,
                                  lease_until)
VALUES (:id, :name, :host, :pid, :version, :jobs, :schedules, :ticks, {now},
        {now} + CAST(:lease AS bigint))
    ON CONFLICT (id) DO UPDATE
   SET lease_until = EXCLUDED.lease_until
 WHERE r.dead_at = 0
RETURNING id

-- name: replica_renew
-- Refused once declared dead, however late the renewal arrives.
UPDATE {schema}replica
   SET lease_until = {now} + CAST(:lease AS bigint)
 WHERE id = :id
   AND dead_at = 0
RETURNING id

-- name: replica_idle
UPDATE {schema}replica
   SET idle = :idle
 WHERE id = :id
   AND dead_at = 0
RETURNING id

-- name: replica_leave
UPDATE {schema}replica
   SET dead_at = {now},
       idle = 0
 WHERE id = :id
   AND dead_at = 0
RETURNING id

-- name: replica_look
SELECT {now},
       (SELECT count(*) FROM {schema}replica WHERE dead_at = 0 AND lease_until < {now}),
       (SELECT COALESCE(min(lease_until), 0) FROM {schema}replica
         WHERE dead_at = 0 AND lease_until >= {now}),
       (SELECT count(*)
          FROM (SELECT replica FROM {schema}run WHERE state = 'running'
                 GROUP BY replica) AS busy
         WHERE NOT EXISTS (SELECT 1 FROM {schema}replica
                            WHERE id = busy.replica AND dead_at = 0)),
       (SELECT COALESCE(min(due), 0) FROM {schema}run WHERE state = 'scheduled' AND deaths > 0),
       (SELECT COALESCE(min(next_fire), 0)
          FROM (SELECT one.next_fire
                  FROM jsonb_array_elements_text(CAST(:schedules AS jsonb)) AS mine(name)
                 CROSS JOIN LATERAL (SELECT next_fire
                                       FROM {schema}schedule
                                      WHERE name = mine.name AND dynamic = 0
                                        AND next_fire > 0 AND paused = 0 AND broken = ''
                                      LIMIT 1) AS one
                 UNION ALL
                SELECT put.next_fire
                  FROM jsonb_array_elements_text(CAST(:ticks AS jsonb)) AS mine(job)
                 CROSS JOIN LATERAL (SELECT next_fire
                                       FROM {schema}schedule
                                      WHERE next_fire > 0 AND paused = 0 AND broken = ''
                                        AND dynamic = 1 AND job = mine.job
                                      ORDER BY next_fire
                                      LIMIT 1) AS put) AS ahead),
       (SELECT count(*)
          FROM (SELECT job FROM (SELECT job FROM {schema}run
                                  WHERE state = 'scheduled' AND deaths = 0 AND due <= {now}
                                  LIMIT 100) AS first_lives
                 UNION ALL
                SELECT job FROM (SELECT job FROM {schema}run
                                  WHERE state = 'scheduled' AND deaths > 0 AND due <= {now}
                                  LIMIT 100) AS survivors) AS head
         WHERE job NOT IN (SELECT jsonb_array_elements_text(CAST(jobs AS jsonb))
                             FROM {schema}replica WHERE dead_at = 0)),
       (SELECT count(*)
          FROM jsonb_array_elements_text(CAST(:jobs AS jsonb)) AS mine(job)
         WHERE EXISTS (SELECT 1 FROM {schema}run WHERE state = 'parked' AND job = mine.job)),
       (SELECT COALESCE(min(head.due), 0)
          FROM jsonb_array_elements_text(CAST(:queues AS jsonb)) AS mine(queue)
         CROSS JOIN generate_series(0, 9) AS p(priority)
         CROSS JOIN LATERAL (SELECT due
                               FROM {schema}run
                              WHERE state = 'scheduled' AND deaths = 0
                                AND queue = mine.queue AND priority = p.priority
                              ORDER BY due, id
                              LIMIT 1) AS head),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}cancel LIMIT 1000) AS asked),
       (SELECT count(*)
          FROM (SELECT DISTINCT schedule FROM {schema}run
                 WHERE state = 'waiting' AND behind > 0) AS free
         WHERE NOT EXISTS (SELECT 1 FROM {schema}run
                            WHERE schedule = free.schedule AND schedule <> '' AND behind = 0
                              AND state IN ('scheduled', 'running', 'waiting'))),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}run
                               WHERE expect_by > 0 AND expect_by <= {now} LIMIT 1000) AS late)

-- name: replica_judge
WITH lapsed AS MATERIALIZED (
  SELECT id
    FROM {schema}replica
   WHERE dead_at = 0
     AND lease_until < {now}
   ORDER BY id
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}replica
   SET dead_at = {now},
       idle = 0
 WHERE id IN (SELECT id FROM lapsed)
   AND dead_at = 0
   AND lease_until < {now}
RETURNING id

-- name: replica_lost
SELECT r.id, r.token, r.replica, r.job, r.key, r.attempt, r.deaths, r.on_loss
  FROM {schema}run AS r
 WHERE r.state = 'running'
   AND NOT EXISTS (SELECT 1 FROM {schema}replica WHERE id = r.replica AND dead_at = 0)
 ORDER BY r.id
 LIMIT CAST(:limit AS bigint)

-- name: replica_forget
WITH old AS MATERIALIZED (
  SELECT r.id
    FROM {schema}replica AS r
   WHERE r.dead_at > 0
     AND r.dead_at < CAST(:before AS bigint)
     AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE replica = r.id)
   ORDER BY r.id
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}replica
 WHERE id IN (SELECT id FROM old)
RETURNING id
