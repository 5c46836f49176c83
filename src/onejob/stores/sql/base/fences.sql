-- name: fence_check
-- A higher token refuses. The row stays locked to the end of the caller's transaction, so nobody
-- with another token writes beside it; the server ends it if its holder falls silent.
INSERT INTO {schema}fence AS f (scope, resource, token, seen)
VALUES (:scope, :resource, CAST(:token AS bigint), {now})
    ON CONFLICT (scope, resource) DO UPDATE
   SET token = EXCLUDED.token,
       seen = EXCLUDED.seen
 WHERE f.token <= EXCLUDED.token
RETURNING resource,
       CASE
         WHEN CAST(current_setting('idle_in_transaction_session_timeout') AS interval)
              BETWEEN interval '1 microsecond'
                  AND CAST(:idle_limit AS bigint) * interval '1 microsecond'
         THEN ''
         ELSE set_config('idle_in_transaction_session_timeout',
                         CAST(CAST(:idle_limit AS bigint) / 1000 AS text), true)
       END

-- name: fence_known
SELECT token
  FROM {schema}fence
 WHERE scope = :scope
   AND resource = :resource

-- name: fence_purge
WITH old AS MATERIALIZED (
  SELECT scope, resource
    FROM {schema}fence
   WHERE seen < {now} - CAST(:unused AS bigint)
   ORDER BY scope, resource
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}fence AS f
 USING old
 WHERE f.scope = old.scope
   AND f.resource = old.resource
   AND f.seen < {now} - CAST(:unused AS bigint)
RETURNING f.resource
