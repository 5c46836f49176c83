-- name: run_park
-- why: json_each, no row locks
-- answer
UPDATE {schema}run
   SET state = 'parked'
 WHERE state = 'scheduled'
   AND id IN (SELECT id
                FROM (SELECT id, job FROM {schema}run INDEXED BY {schema}run_claim
                       WHERE state = 'scheduled' AND deaths = 0 AND due <= {now} LIMIT :limit)
               WHERE job NOT IN (SELECT j.value FROM {schema}replica AS r, json_each(r.jobs) AS j
                                  WHERE r.dead_at = 0)
               UNION ALL
              SELECT id
                FROM (SELECT id, job FROM {schema}run INDEXED BY {schema}run_alone
                       WHERE state = 'scheduled' AND deaths > 0 AND due <= {now} LIMIT :limit)
               WHERE job NOT IN (SELECT j.value FROM {schema}replica AS r, json_each(r.jobs) AS j
                                  WHERE r.dead_at = 0))
RETURNING id
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

-- name: run_unpark
-- why: json_each, no row locks
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now})
 WHERE state = 'parked'
   AND job IN (SELECT value FROM json_each(:jobs))
RETURNING id
