-- name: health_transaction
-- Snapshots held by others count as well: vacuum stops at the oldest, whoever has it.
SELECT pid,
       CAST(extract(epoch FROM clock_timestamp() - xact_start) * 1000000 AS bigint),
       COALESCE(state, ''), COALESCE(application_name, '')
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND backend_type = 'client backend'
   AND xact_start IS NOT NULL
   AND pid <> pg_backend_pid()
 ORDER BY xact_start
 LIMIT 1

-- name: health_settings
SELECT name, setting
  FROM pg_settings
 WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')
