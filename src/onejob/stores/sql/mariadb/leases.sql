-- name: lease_take
-- why: as for lease_acquire, without what only a lapsed lease, a waiter or a resource needs
SET @onejob_free = NULL
-- then
SELECT MAX(h.token) INTO @onejob_free
  FROM {schema}lease_hand AS h
 WHERE h.scope = :scope
   AND h.name = :name
   AND (SELECT l.owner = '' AND l.expires <= {now}
          FROM {schema}lease AS l
         WHERE l.scope = h.scope
           AND l.name = h.name)
   FOR UPDATE SKIP LOCKED
-- then
UPDATE (SELECT @onejob_free AS token
          FROM DUAL
         WHERE @onejob_free IS NOT NULL) AS free
  STRAIGHT_JOIN {schema}lease_hand AS h
    ON h.scope = :scope
   AND h.name = :name
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = h.scope
   AND l.name = h.name
   SET h.token = GREATEST(@onejob_free + 1, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       h.owner = :owner,
       l.token = GREATEST(@onejob_free + 1, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       l.owner = :owner,
       l.holder = :holder,
       l.resources = '[]',
       l.acquired = {now},
       l.hold_until = {now} + :at_least,
       l.expires = {now} + GREATEST(:ttl, :at_least),
       l.changed = {now}
 WHERE h.token = free.token
   AND l.token = free.token
   AND l.owner = ''
   AND l.expires <= {now}
-- then
-- answer
SELECT CONVERT(scope USING utf8mb4), CONVERT(name USING utf8mb4), token,
       CONVERT(owner USING utf8mb4), holder, resources, acquired, expires, changed, {now}
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
   AND @onejob_free IS NOT NULL

-- name: lease_acquire
-- why: no data-modifying CTEs and no KEY SHARE, so the row that changes hands is one of its own,
-- locked first and skipped where a fenced transaction holds it. What was not locked so is not
-- looked at afterwards: an UPDATE locks each row that it looks at. No sequence: the token is the last
-- one plus one, and never less than the clock nor than what is known at its resources.
SET @onejob_held = NULL, @onejob_free = NULL, @onejob_clear = NULL
-- then
SELECT MAX(h.token) INTO @onejob_held
  FROM {schema}lease_hand AS h
 WHERE h.scope = :scope
   AND h.name = :name
   AND (SELECT l.expires
          FROM {schema}lease AS l
         WHERE l.scope = h.scope
           AND l.name = h.name) <= {now}
   FOR UPDATE SKIP LOCKED
-- then
SELECT COUNT(*), GREATEST(COALESCE(MAX(f.token), 0), @onejob_held) + 1
  INTO @onejob_clear, @onejob_token
  FROM JSON_TABLE(CONVERT(:resources USING utf8mb4), '$[*]'
         COLUMNS (resource varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS g
  STRAIGHT_JOIN {schema}fence AS f
    ON f.scope = :scope
   AND f.resource = g.resource
 WHERE @onejob_held IS NOT NULL
   FOR UPDATE SKIP LOCKED
-- then
SELECT MAX(l.token) INTO @onejob_free
  FROM {schema}lease AS l
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.token = @onejob_held
   AND l.expires <= {now}
   AND @onejob_clear = (SELECT COUNT(*)
                          FROM {schema}fence AS f
                         WHERE f.scope = :scope
                           AND f.resource IN (
                               SELECT resource
                                 FROM JSON_TABLE(CONVERT(:resources USING utf8mb4), '$[*]' COLUMNS (
                                        resource varchar(1024) CHARACTER SET utf8mb4 PATH '$')
                                      ) AS g))
   FOR UPDATE
-- then
INSERT INTO {schema}event (at, kind, `key`, token, replica, detail)
SELECT {now}, 'lock.lapsed', l.name, l.token, l.holder, :holder
  FROM {schema}lease AS l
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.token = @onejob_free
   AND l.owner <> ''
-- then
UPDATE (SELECT @onejob_free AS token
          FROM DUAL
         WHERE @onejob_free IS NOT NULL) AS free
  STRAIGHT_JOIN {schema}lease_hand AS h
    ON h.scope = :scope
   AND h.name = :name
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = h.scope
   AND l.name = h.name
   SET h.token = GREATEST(@onejob_token, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       h.owner = :owner,
       l.token = GREATEST(@onejob_token, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       l.owner = :owner,
       l.holder = :holder,
       l.resources = :resources,
       l.acquired = {now},
       l.hold_until = {now} + :at_least,
       l.expires = {now} + GREATEST(:ttl, :at_least),
       l.changed = {now}
 WHERE h.token = free.token
   AND l.token = free.token
-- then
INSERT INTO {schema}fence (scope, resource, token, seen)
SELECT l.scope, g.resource, l.token, l.acquired
  FROM {schema}lease AS l
  JOIN JSON_TABLE(CONVERT(:resources USING utf8mb4), '$[*]'
         COLUMNS (resource varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS g
 WHERE l.scope = :scope
   AND l.name = :name
   AND @onejob_free IS NOT NULL
    ON DUPLICATE KEY UPDATE
       seen = IF({schema}fence.token < VALUES(token), VALUES(seen), {schema}fence.seen),
       token = GREATEST({schema}fence.token, VALUES(token))
-- then
INSERT INTO {schema}waiter (scope, name, owner, holder, since, until)
SELECT l.scope, l.name, :owner, :holder, {now}, {now} + :wait
  FROM {schema}lease AS l
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.owner <> :owner
   AND :wait > 0
    ON DUPLICATE KEY UPDATE since = {schema}waiter.since
-- then
DELETE FROM {schema}waiter
 WHERE :wait > 0
   AND @onejob_free IS NOT NULL
   AND scope = :scope
   AND name = :name
   AND owner = :owner
-- then
-- answer
SELECT CONVERT(scope USING utf8mb4), CONVERT(name USING utf8mb4), token,
       CONVERT(owner USING utf8mb4), holder, resources, acquired, expires, changed, {now}
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
-- then
INSERT INTO {schema}lease (scope, name, holder, resources, changed)
SELECT :scope, :name, '', '[]', {now}
  FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM {schema}lease AS l WHERE l.scope = :scope AND l.name = :name)
    ON DUPLICATE KEY UPDATE token = {schema}lease.token
-- then
INSERT INTO {schema}lease_hand (scope, name)
SELECT :scope, :name
  FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM {schema}lease_hand AS h WHERE h.scope = :scope AND h.name = :name)
    ON DUPLICATE KEY UPDATE token = {schema}lease_hand.token

-- name: lease_renew
-- why: JSON_TABLE, and no RETURNING: whoever still holds after the update was renewed by it
UPDATE JSON_TABLE(CONVERT(:held USING utf8mb4), '$[*]'
         COLUMNS (scope varchar(1024) CHARACTER SET utf8mb4 PATH '$.scope',
                  name varchar(1024) CHARACTER SET utf8mb4 PATH '$.name',
                  token bigint PATH '$.token',
                  owner varchar(255) CHARACTER SET utf8mb4 PATH '$.owner',
                  ttl bigint PATH '$.ttl')) AS g
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = g.scope
   AND l.name = g.name
   SET l.expires = GREATEST({now} + g.ttl, l.hold_until)
 WHERE l.token = g.token
   AND l.owner = g.owner
   AND l.expires > {now}
-- then
SELECT CONVERT(l.owner USING utf8mb4)
  FROM JSON_TABLE(CONVERT(:held USING utf8mb4), '$[*]'
         COLUMNS (scope varchar(1024) CHARACTER SET utf8mb4 PATH '$.scope',
                  name varchar(1024) CHARACTER SET utf8mb4 PATH '$.name',
                  token bigint PATH '$.token',
                  owner varchar(255) CHARACTER SET utf8mb4 PATH '$.owner')) AS g
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = g.scope
   AND l.name = g.name
 WHERE l.token = g.token
   AND l.owner = g.owner
   AND l.expires > {now}
   FOR UPDATE

-- name: lease_release
-- why: no RETURNING: read under the guard and locked, then written; and no notifications
-- answer
SELECT CONVERT(name USING utf8mb4)
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND owner IN (:owner, '')
   FOR UPDATE
-- then
UPDATE {schema}lease
   SET owner = '',
       expires = GREATEST({now}, hold_until),
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND owner = :owner

-- name: lease_undo
-- why: no RETURNING: read under the guard and locked, then written; and no notifications
-- answer
SELECT CONVERT(name USING utf8mb4)
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
   FOR UPDATE
-- then
UPDATE {schema}lease
   SET owner = '',
       hold_until = 0,
       expires = {now},
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner

-- name: lease_give_up
-- why: no RETURNING
-- answer
SELECT CONVERT(name USING utf8mb4)
  FROM {schema}waiter
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
   FOR UPDATE
-- then
DELETE FROM {schema}waiter
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner

-- name: lease_fence
-- why: no KEY SHARE, so what is locked is the row that changes hands, and renewals go on. The
-- expiry is read without a lock. In a transaction that goes on reading what it read first that may
-- be an old one, and in one that locks what it reads it would stop renewals: there the first lock
-- alone decides, under which nobody else can get the lease.
-- answer
SELECT CONVERT(h.name USING utf8mb4)
  FROM {schema}lease_hand AS h
 WHERE h.scope = :scope
   AND h.name = :name
   AND h.token = :token
   AND h.owner = :owner
   AND NOT EXISTS (SELECT 1
                     FROM {schema}lease AS l
                    WHERE /*M!100600 @@tx_isolation */ /*!80000 @@transaction_isolation */
                          NOT IN ('REPEATABLE-READ', 'SERIALIZABLE')
                      AND l.scope = h.scope
                      AND l.name = h.name
                      AND (l.owner <> :owner OR l.expires <= {now}))
  LOCK IN SHARE MODE
-- then
SET @onejob_idle = :idle_limit /*M!100600 ,
    SESSION idle_transaction_timeout = CASE
      WHEN @@idle_transaction_timeout BETWEEN 1 AND (:idle_limit + 999999) DIV 1000000
      THEN @@idle_transaction_timeout
      ELSE (:idle_limit + 999999) DIV 1000000
    END */

-- name: lease_break
-- why: no data-modifying CTEs, no sequence; both rows are locked first
SET @onejob_held = NULL, @onejob_free = NULL
-- then
SELECT MAX(h.token) INTO @onejob_held
  FROM {schema}lease_hand AS h
 WHERE h.scope = :scope
   AND h.name = :name
   AND h.token = :token
   FOR UPDATE SKIP LOCKED
-- then
SELECT MAX(l.token) INTO @onejob_free
  FROM {schema}lease AS l
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.token = @onejob_held
   AND l.expires > {now}
   FOR UPDATE
-- then
INSERT INTO {schema}event (at, kind, `key`, token, replica, detail)
SELECT {now}, 'lock.broken', l.name, l.token, l.holder, CONCAT(:by, ': ', :reason)
  FROM {schema}lease AS l
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.token = @onejob_free
-- then
UPDATE (SELECT @onejob_free AS token
          FROM DUAL
         WHERE @onejob_free IS NOT NULL) AS free
  STRAIGHT_JOIN {schema}lease_hand AS h
    ON h.scope = :scope
   AND h.name = :name
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = h.scope
   AND l.name = h.name
   SET h.token = GREATEST(@onejob_free + 1, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       h.owner = '',
       l.token = GREATEST(@onejob_free + 1, TIMESTAMPDIFF(
                   MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
       l.owner = '',
       l.hold_until = 0,
       l.expires = {now},
       l.changed = {now}
 WHERE h.token = free.token
   AND l.token = free.token
-- then
INSERT INTO {schema}fence (scope, resource, token, seen)
SELECT l.scope, g.resource, l.token, l.changed
  FROM {schema}lease AS l
  JOIN JSON_TABLE(l.resources, '$[*]'
         COLUMNS (resource varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS g
 WHERE l.scope = :scope
   AND l.name = :name
   AND @onejob_free IS NOT NULL
    ON DUPLICATE KEY UPDATE
       seen = IF({schema}fence.token < VALUES(token), VALUES(seen), {schema}fence.seen),
       token = GREATEST({schema}fence.token, VALUES(token))
-- then
-- answer
SELECT CONVERT(scope USING utf8mb4), CONVERT(name USING utf8mb4), token,
       CONVERT(owner USING utf8mb4), holder, resources, acquired, expires, changed, {now}
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND @onejob_free IS NOT NULL

-- name: lease_list
-- why: parameters without casts; names are binary
SELECT CONVERT(l.scope USING utf8mb4), CONVERT(l.name USING utf8mb4), l.token,
       CONVERT(l.owner USING utf8mb4), l.holder, l.resources, l.acquired, l.expires, l.changed,
       {now},
       (SELECT COUNT(*) FROM {schema}waiter AS w
         WHERE w.scope = l.scope AND w.name = l.name AND w.until > {now})
  FROM {schema}lease AS l
 WHERE (:scope = '' OR l.scope = :scope)
   AND (:name = '' OR l.name = :name)
   AND (:free = 1 OR l.expires > {now})
 ORDER BY l.scope, l.name
 LIMIT :limit

-- name: lease_purge
-- why: no RETURNING, and two rows a lock: a lock whose rows somebody has locked is skipped
SET @onejob_now = {now}
-- then
DELETE FROM {schema}waiter
 WHERE until < @onejob_now - :unused
-- then
-- answer
SELECT CONVERT(l.name USING utf8mb4)
  FROM {schema}lease AS l
  STRAIGHT_JOIN {schema}lease_hand AS h
    ON h.scope = l.scope
   AND h.name = l.name
 WHERE l.changed < @onejob_now - :unused
   AND l.expires < @onejob_now - :unused
 ORDER BY l.scope, l.name
 LIMIT :limit
   FOR UPDATE SKIP LOCKED
-- then
DELETE l, h
  FROM (SELECT l.scope, l.name
          FROM {schema}lease AS l
          STRAIGHT_JOIN {schema}lease_hand AS h
            ON h.scope = l.scope
           AND h.name = l.name
         WHERE l.changed < @onejob_now - :unused
           AND l.expires < @onejob_now - :unused
         ORDER BY l.scope, l.name
         LIMIT :limit
           FOR UPDATE SKIP LOCKED) AS old
  STRAIGHT_JOIN {schema}lease AS l
    ON l.scope = old.scope
   AND l.name = old.name
  STRAIGHT_JOIN {schema}lease_hand AS h
    ON h.scope = old.scope
   AND h.name = old.name
