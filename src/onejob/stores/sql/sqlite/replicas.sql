-- name: replica_look
-- why: json_each, and no row locks to count around
SELECT {now},
       (SELECT count(*) FROM {schema}replica WHERE dead_at = 0 AND lease_until < {now}),
       (SELECT COALESCE(min(lease_until), 0) FROM {schema}replica
         WHERE dead_at = 0 AND lease_until >= {now}),
       (SELECT count(*)
          FROM (SELECT DISTINCT replica FROM {schema}run WHERE state = 'running') AS busy
         WHERE NOT EXISTS (SELECT 1 FROM {schema}replica
                            WHERE id = busy.replica AND dead_at = 0)),
       (SELECT COALESCE(min(due), 0) FROM {schema}run WHERE state = 'scheduled' AND deaths > 0),
       (SELECT COALESCE(min(next_fire), 0)
          FROM (SELECT next_fire FROM {schema}schedule
                 WHERE next_fire > 0 AND paused = 0 AND broken = '' AND dynamic = 0
                   AND name IN (SELECT value FROM json_each(:schedules))
                 UNION ALL
                SELECT (SELECT min(next_fire)
                          FROM {schema}schedule INDEXED BY {schema}schedule_dynamic
                         WHERE next_fire > 0 AND paused = 0 AND broken = '' AND dynamic = 1
                           AND job = mine.value)
                  FROM json_each(:ticks) AS mine)),
       (SELECT count(*)
          FROM (SELECT job FROM (SELECT job FROM {schema}run
                                  WHERE state = 'scheduled' AND deaths = 0 AND due <= {now}
                                  LIMIT 100) AS first_lives
                 UNION ALL
                SELECT job FROM (SELECT job FROM {schema}run
                                  WHERE state = 'scheduled' AND deaths > 0 AND due <= {now}
                                  LIMIT 100) AS survivors) AS head
         WHERE job NOT IN (SELECT j.value FROM {schema}replica AS r, json_each(r.jobs) AS j
                            WHERE r.dead_at = 0)),
       (SELECT count(*)
          FROM json_each(:jobs) AS mine
         WHERE EXISTS (SELECT 1 FROM {schema}run WHERE state = 'parked' AND job = mine.value)),
       (SELECT COALESCE(min((SELECT due
                               FROM {schema}run INDEXED BY {schema}run_claim
                              WHERE state = 'scheduled' AND deaths = 0
                                AND queue = mine.value AND priority = p.value
                              ORDER BY due, id
                              LIMIT 1)), 0)
          FROM json_each(:queues) AS mine, json_each('[0,1,2,3,4,5,6,7,8,9]') AS p),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}cancel LIMIT 1000)),
       (SELECT count(*)
          FROM (SELECT DISTINCT schedule FROM {schema}run INDEXED BY {schema}run_behind
                 WHERE state = 'waiting' AND behind > 0) AS free
         WHERE NOT EXISTS (SELECT 1 FROM {schema}run
                            WHERE schedule = free.schedule AND schedule <> '' AND behind = 0
                              AND state IN ('scheduled', 'running', 'waiting'))),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}run INDEXED BY {schema}run_expect
                               WHERE expect_by <> 0 AND expect_by > 0 AND expect_by <= {now}
                               LIMIT 1000))

-- name: replica_judge
-- why: no row locks
UPDATE {schema}replica
   SET dead_at = {now},
       idle = 0
 WHERE dead_at = 0
   AND lease_until < {now}
RETURNING id

-- name: replica_forget
-- why: no row locks
DELETE FROM {schema}replica
 WHERE id IN (SELECT r.id
                FROM {schema}replica AS r
               WHERE r.dead_at > 0
                 AND r.dead_at < :before
                 AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE replica = r.id)
               ORDER BY r.id
               LIMIT :limit)
RETURNING id
