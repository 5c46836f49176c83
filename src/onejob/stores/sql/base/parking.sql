-- name: run_park
-- Looks only at the heads of what is due: an unknown job further back blocks nobody yet. A parked run
-- is in nobody's way: what waits behind it is scheduled.
WITH known AS (
  SELECT jsonb_array_elements_text(CAST(jobs AS jsonb)) AS job
    FROM {schema}replica
   WHERE dead_at = 0
), heads AS (
  (SELECT id, job FROM {schema}run
    WHERE state = 'scheduled' AND deaths = 0 AND due <= {now}
    ORDER BY queue, priority, due, id LIMIT CAST(:limit AS bigint))
   UNION ALL
  (SELECT id, job FROM {schema}run
    WHERE state = 'scheduled' AND deaths > 0 AND due <= {now}
    ORDER BY queue, due, id LIMIT CAST(:limit AS bigint))
), picked AS MATERIALIZED (
  SELECT r.id, r.schedule
    FROM {schema}run AS r
   WHERE r.id IN (SELECT id FROM heads WHERE job NOT IN (SELECT job FROM known))
     AND r.state = 'scheduled'
   ORDER BY r.id
     FOR NO KEY UPDATE SKIP LOCKED
), freed AS (
  UPDATE {schema}run AS r
     SET state = 'scheduled',
         behind = 0,
         due = GREATEST(r.due, {now})
    FROM (SELECT DISTINCT schedule FROM picked WHERE schedule <> '') AS free
   CROSS JOIN LATERAL (SELECT id
                         FROM {schema}run
                        WHERE schedule = free.schedule
                          AND state = 'waiting'
                          AND behind > 0
                        ORDER BY id
                        LIMIT 1) AS first
   WHERE r.id = first.id
     AND r.state = 'waiting'
     AND NOT EXISTS (SELECT 1
                       FROM {schema}run AS other
                      WHERE other.schedule = free.schedule
                        AND other.schedule <> ''
                        AND other.behind = 0
                        AND other.state IN ('scheduled', 'running', 'waiting')
                        AND other.id NOT IN (SELECT id FROM picked))
)
UPDATE {schema}run AS r
   SET state = 'parked'
  FROM picked
 WHERE r.id = picked.id
RETURNING r.id

-- name: run_unpark
WITH picked AS MATERIALIZED (
  SELECT id
    FROM {schema}run
   WHERE state = 'parked'
     AND job IN (SELECT jsonb_array_elements_text(CAST(:jobs AS jsonb)))
   ORDER BY id
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}run AS r
   SET state = 'scheduled',
       due = GREATEST(r.due, {now})
  FROM picked
 WHERE r.id = picked.id
RETURNING r.id
