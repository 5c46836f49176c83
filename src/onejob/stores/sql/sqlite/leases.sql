-- name: lease_take
-- why: tokens from the counter row; the write lock stands for row locks
-- answer
UPDATE {schema}lease
   SET token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       owner = :owner,
       holder = :holder,
       resources = '[]',
       acquired = {now},
       hold_until = {now} + :at_least,
       expires = {now} + max(:ttl, :at_least),
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND owner = ''
   AND expires <= {now}
RETURNING scope, name, token, owner, holder, resources, acquired, expires, changed, {now}
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: lease_acquire
-- why: no data-modifying CTEs, tokens from the counter row; the write lock stands for row locks
INSERT INTO {schema}event (at, kind, job, key, token, replica, detail)
SELECT {now}, 'lock.lapsed', '', name, token, holder, :holder
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND expires <= {now}
   AND owner <> ''
-- then
UPDATE {schema}lease
   SET token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       owner = :owner,
       holder = :holder,
       resources = :resources,
       acquired = {now},
       hold_until = {now} + :at_least,
       expires = {now} + max(:ttl, :at_least),
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND expires <= {now}
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0
-- then
INSERT INTO {schema}fence (scope, resource, token, seen)
SELECT l.scope, given.value, l.token, {now}
  FROM {schema}lease AS l, json_each(l.resources) AS given
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.owner = :owner
    ON CONFLICT (scope, resource) DO UPDATE
   SET token = excluded.token,
       seen = excluded.seen
 WHERE token < excluded.token
-- then
INSERT INTO {schema}waiter (scope, name, owner, holder, since, until)
SELECT scope, name, :owner, :holder, {now}, {now} + :wait
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND owner <> :owner
   AND :wait > 0
    ON CONFLICT (scope, name, owner) DO NOTHING
-- then
DELETE FROM {schema}waiter
 WHERE :wait > 0
   AND scope = :scope
   AND name = :name
   AND owner = :owner
   AND EXISTS (SELECT 1 FROM {schema}lease
                WHERE scope = :scope AND name = :name AND owner = :owner)
-- then
-- answer
SELECT scope, name, token, owner, holder, resources, acquired, expires, changed, {now}
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
-- then
INSERT INTO {schema}lease (scope, name)
VALUES (:scope, :name)
    ON CONFLICT (scope, name) DO NOTHING

-- name: lease_renew
-- why: json_each
UPDATE {schema}lease
   SET expires = max({now} + json_extract(given.value, '$.ttl'), hold_until)
  FROM json_each(:held) AS given
 WHERE scope = json_extract(given.value, '$.scope')
   AND name = json_extract(given.value, '$.name')
   AND token = json_extract(given.value, '$.token')
   AND owner = json_extract(given.value, '$.owner')
   AND expires > {now}
RETURNING owner

-- name: lease_release
-- why: max() for GREATEST(), and no notifications
UPDATE {schema}lease
   SET owner = '',
       expires = CASE owner WHEN '' THEN expires ELSE max({now}, hold_until) END,
       changed = CASE owner WHEN '' THEN changed ELSE {now} END
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND owner IN (:owner, '')
RETURNING name

-- name: lease_undo
-- why: no notifications
UPDATE {schema}lease
   SET owner = '',
       hold_until = 0,
       expires = {now},
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
RETURNING name

-- name: lease_fence
-- why: no row locks. A write, even one that changes nothing, takes the one write lock to the end of
-- the transaction; how long it may be held is bounded by the caller (there is no server to end it).
UPDATE {schema}lease
   SET token = token
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND owner = :owner
   AND expires > {now}
RETURNING name

-- name: lease_break
-- why: no data-modifying CTEs, tokens from the counter row
INSERT INTO {schema}event (at, kind, job, key, token, replica, detail)
SELECT {now}, 'lock.broken', '', name, token, holder, :by || ': ' || :reason
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND expires > {now}
-- then
-- answer
UPDATE {schema}lease
   SET token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       owner = '',
       hold_until = 0,
       expires = {now},
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND token = :token
   AND expires > {now}
RETURNING scope, name, token, owner, holder, resources, acquired, expires, changed, {now}
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0
-- then
INSERT INTO {schema}fence (scope, resource, token, seen)
SELECT l.scope, given.value, l.token, {now}
  FROM {schema}lease AS l, json_each(l.resources) AS given
 WHERE l.scope = :scope
   AND l.name = :name
   AND l.owner = ''
   AND l.token = (SELECT value FROM {schema}counter WHERE name = 'token')
    ON CONFLICT (scope, resource) DO UPDATE
   SET token = excluded.token,
       seen = excluded.seen
 WHERE token < excluded.token

-- name: lease_list
-- why: parameters without casts
SELECT scope, name, token, owner, holder, resources, acquired, expires, changed, {now},
       (SELECT count(*) FROM {schema}waiter AS w
         WHERE w.scope = l.scope AND w.name = l.name AND w.until > {now})
  FROM {schema}lease AS l
 WHERE (:scope = '' OR scope = :scope)
   AND (:name = '' OR name = :name)
   AND (:free = 1 OR expires > {now})
 ORDER BY scope, name
 LIMIT :limit

-- name: lease_purge
-- why: no row locks
DELETE FROM {schema}waiter
 WHERE until < {now} - :unused
-- then
-- answer
DELETE FROM {schema}lease
 WHERE (scope, name) IN (SELECT scope, name
                           FROM {schema}lease
                          WHERE changed < {now} - :unused
                            AND expires < {now} - :unused
                          ORDER BY scope, name
                          LIMIT :limit)
RETURNING name
