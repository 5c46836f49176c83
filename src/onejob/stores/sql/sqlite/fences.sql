-- name: fence_check
-- why: no row locks and no setting that ends a silent transaction
INSERT INTO {schema}fence (scope, resource, token, seen)
VALUES (:scope, :resource, :token, {now})
    ON CONFLICT (scope, resource) DO UPDATE
   SET token = excluded.token,
       seen = excluded.seen
 WHERE token <= excluded.token
RETURNING resource

-- name: fence_purge
-- why: no row locks
DELETE FROM {schema}fence
 WHERE (scope, resource) IN (SELECT scope, resource
                               FROM {schema}fence
                              WHERE seen < {now} - :unused
                              ORDER BY scope, resource
                              LIMIT :limit)
RETURNING resource
