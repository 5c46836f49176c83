-- name: event_purge
-- why: no RETURNING, no runs
-- answer
SELECT id
  FROM {schema}event
 WHERE at < :before
 ORDER BY id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED
-- then
DELETE e
  FROM (SELECT id
          FROM {schema}event
         WHERE at < :before
         ORDER BY id
         LIMIT :limit
           FOR UPDATE SKIP LOCKED) AS old
  STRAIGHT_JOIN {schema}event AS e
    ON e.id = old.id
