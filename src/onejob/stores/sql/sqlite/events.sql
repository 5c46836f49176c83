-- name: event_purge
-- why: no row locks
DELETE FROM {schema}event
 WHERE id IN (SELECT id
                FROM {schema}event
               WHERE run_id = 0
                 AND at < :before
               ORDER BY id
               LIMIT :limit)
RETURNING id
