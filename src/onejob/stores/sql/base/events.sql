-- name: event_purge
WITH old AS MATERIALIZED (
  SELECT id
    FROM {schema}event
   WHERE run_id = 0
     AND at < CAST(:before AS bigint)
   ORDER BY id
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}event
 WHERE id IN (SELECT id FROM old)
RETURNING id
