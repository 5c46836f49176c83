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

-- name: health_keys
-- The unique indexes of our tables that keep something out: valid, and neither partial nor on an
-- expression. The columns of each are in its own order.
SELECT c.relname, string_agg(a.attname, ',' ORDER BY k.place)
  FROM pg_catalog.pg_index AS x
  JOIN pg_catalog.pg_class AS c
    ON c.oid = x.indrelid
 CROSS JOIN LATERAL unnest(CAST(x.indkey AS smallint[])) WITH ORDINALITY AS k (attnum, place)
  JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = x.indrelid AND a.attnum = k.attnum
 WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class
                          WHERE oid = to_regclass('{schema}ledger'))
   AND x.indisunique AND x.indisvalid AND x.indisready AND x.indislive
   AND x.indpred IS NULL AND x.indexprs IS NULL
 GROUP BY x.indexrelid, c.relname
 ORDER BY c.relname
