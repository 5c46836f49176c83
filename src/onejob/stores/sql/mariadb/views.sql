-- name: view_events
-- why: parameters without casts, no runs; names are binary
SELECT id, at, CONVERT(kind USING utf8mb4), CONVERT(job USING utf8mb4),
       CONVERT(`key` USING utf8mb4), 0, token, replica, CONVERT(schedule USING utf8mb4), detail
  FROM {schema}event
 WHERE :run_id = 0
   AND (:schedule = '' OR schedule = :schedule)
   AND at >= :since
   AND (:until = 0 OR at <= :until)
 ORDER BY id
 LIMIT :limit

-- name: view_breaks
-- why: a parameter without a cast, no runs; names are binary
SELECT id, at, CONVERT(kind USING utf8mb4), CONVERT(job USING utf8mb4),
       CONVERT(`key` USING utf8mb4), 0, token, replica, CONVERT(schedule USING utf8mb4), detail
  FROM {schema}event
 WHERE kind = 'lock.broken'
   AND `key` = :name
 ORDER BY id DESC
 LIMIT :limit
