-- name: lease_take
-- The quick way, for a lock that was given back: free, and nobody's lease that lapsed. FOR UPDATE, which
-- a fenced transaction's KEY SHARE keeps out, and skipped. The token is drawn in SET.
UPDATE {schema}lease
   SET token = nextval('{schema}token'),
       owner = :owner,
       holder = :holder,
       resources = '[]',
       acquired = {now},
       hold_until = {now} + CAST(:at_least AS bigint),
       expires = {now} + GREATEST(CAST(:ttl AS bigint), CAST(:at_least AS bigint)),
       changed = {now}
 WHERE scope = :scope
   AND name = (SELECT name
                 FROM {schema}lease
                WHERE scope = :scope
                  AND name = :name
                  AND owner = ''
                  AND expires <= {now}
                  FOR UPDATE SKIP LOCKED)
RETURNING scope, name, token, owner, holder, resources, acquired, expires, changed, {now}

-- name: lease_acquire
-- Free means that its time is over and that no transaction holds the row, or the fence of a resource:
-- FOR UPDATE, which a fenced transaction's KEY SHARE keeps out, and skipped, so that nobody waits.
-- The token is drawn in SET by the row that changes hands. A name that is new here gets its row, at
-- token 0, and no answer: the next request takes it. Whoever let its lease lapse is told of. One
-- that is refused and will wait is put among the waiters, once, and taken out when it gets the lock.
WITH given AS MATERIALIZED (
  SELECT jsonb_array_elements_text(CAST(CAST(:resources AS text) AS jsonb)) AS resource
), clear AS MATERIALIZED (
  SELECT resource
    FROM {schema}fence
   WHERE scope = :scope
     AND resource IN (SELECT resource FROM given)
   ORDER BY resource
     FOR NO KEY UPDATE SKIP LOCKED
), free AS MATERIALIZED (
  SELECT token, owner, holder
    FROM {schema}lease
   WHERE scope = :scope
     AND name = :name
     AND expires <= {now}
     AND (SELECT count(*) FROM clear)
       = (SELECT count(*) FROM {schema}fence
           WHERE scope = :scope
             AND resource IN (SELECT resource FROM given))
     FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE {schema}lease
     SET token = nextval('{schema}token'),
         owner = :owner,
         holder = :holder,
         resources = :resources,
         acquired = {now},
         hold_until = {now} + CAST(:at_least AS bigint),
         expires = {now} + GREATEST(CAST(:ttl AS bigint), CAST(:at_least AS bigint)),
         changed = {now}
   WHERE scope = :scope
     AND name = :name
     AND expires <= {now}
     AND EXISTS (SELECT 1 FROM free)
  RETURNING scope, name, token, owner, holder, resources, acquired, expires, changed
), announced AS (
  INSERT INTO {schema}fence AS f (scope, resource, token, seen)
  SELECT taken.scope, given.resource, taken.token, {now}
    FROM taken, given
      ON CONFLICT (scope, resource) DO UPDATE
     SET token = EXCLUDED.token,
         seen = EXCLUDED.seen
   WHERE f.token < EXCLUDED.token
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, token, replica, detail)
  SELECT {now}, 'lock.lapsed', '', taken.name, free.token, free.holder, taken.holder
    FROM taken, free
   WHERE free.owner <> ''
), waits AS (
  INSERT INTO {schema}waiter (scope, name, owner, holder, since, until)
  SELECT scope, name, :owner, :holder, {now}, {now} + CAST(:wait AS bigint)
    FROM {schema}lease
   WHERE scope = :scope
     AND name = :name
     AND CAST(:wait AS bigint) > 0
     AND owner <> :owner
     AND NOT EXISTS (SELECT 1 FROM taken)
     AND NOT EXISTS (SELECT 1 FROM {schema}waiter
                      WHERE scope = :scope AND name = :name AND owner = :owner)
      ON CONFLICT (scope, name, owner) DO NOTHING
), waited AS (
  DELETE FROM {schema}waiter AS w
   USING taken
   WHERE CAST(:wait AS bigint) > 0
     AND w.scope = taken.scope
     AND w.name = taken.name
     AND w.owner = taken.owner
), made AS (
  INSERT INTO {schema}lease (scope, name)
  SELECT :scope, :name
   WHERE NOT EXISTS (SELECT 1 FROM {schema}lease WHERE scope = :scope AND name = :name)
      ON CONFLICT (scope, name) DO NOTHING
)
SELECT taken.*, {now} FROM taken
 UNION ALL
SELECT scope, name, token, owner, holder, resources, acquired, expires, changed, {now}
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND NOT EXISTS (SELECT 1 FROM taken)

-- name: lease_renew
-- Each by (token, owner), and only while it lasts: a lease that has lapsed is not revived.
UPDATE {schema}lease AS l
   SET expires = GREATEST({now} + given.ttl, l.hold_until)
  FROM jsonb_to_recordset(CAST(:held AS jsonb))
       AS given(scope text, name text, token bigint, owner text, ttl bigint)
 WHERE l.scope = given.scope
   AND l.name = given.name
   AND l.token = given.token
   AND l.owner = given.owner
   AND l.expires > {now}
RETURNING l.owner

-- name: lease_release
-- By (token, owner): whoever lost the lock has nothing to give back. The minimum is kept. Asked again
-- after a lost reply it finds its own token, given back: that was done, and stays as it is. Notifies
-- where somebody waits: a NOTIFY in every transaction would put all of them in one line.
UPDATE {schema}lease
   SET owner = '',
       expires = CASE owner WHEN '' THEN expires ELSE GREATEST({now}, hold_until) END,
       changed = CASE owner WHEN '' THEN changed ELSE {now} END
 WHERE scope = :scope
   AND name = :name
   AND token = CAST(:token AS bigint)
   AND owner IN (:owner, '')
RETURNING name,
          CASE WHEN EXISTS (SELECT 1 FROM {schema}waiter
                             WHERE scope = :scope AND name = :name AND until > {now})
               THEN pg_notify('{schema}lock', '') END

-- name: lease_undo
-- By the owner alone, who was never told a token; and at once, since nothing ran.
UPDATE {schema}lease
   SET owner = '',
       hold_until = 0,
       expires = {now},
       changed = {now}
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
RETURNING name,
          CASE WHEN EXISTS (SELECT 1 FROM {schema}waiter
                             WHERE scope = :scope AND name = :name AND until > {now})
               THEN pg_notify('{schema}lock', '') END

-- name: lease_fence
-- The lock outlives the statement: until the caller's transaction ends nobody takes the lock over.
-- KEY SHARE, not NO KEY UPDATE: it keeps a takeover's FOR UPDATE out and lets our own renewals in.
-- The server ends the transaction if its holder falls silent, so that a frozen one cannot keep it.
SELECT name,
       CASE
         WHEN CAST(current_setting('idle_in_transaction_session_timeout') AS interval)
              BETWEEN interval '1 microsecond'
                  AND CAST(:idle_limit AS bigint) * interval '1 microsecond'
         THEN ''
         ELSE set_config('idle_in_transaction_session_timeout',
                         CAST(CAST(:idle_limit AS bigint) / 1000 AS text), true)
       END
  FROM {schema}lease
 WHERE scope = :scope
   AND name = :name
   AND token = CAST(:token AS bigint)
   AND owner = :owner
   AND expires > {now}
   FOR KEY SHARE

-- name: lease_break
-- From exactly the holder that was read, under a token drawn in SET and announced at its resources.
WITH held AS MATERIALIZED (
  SELECT token, holder
    FROM {schema}lease
   WHERE scope = :scope
     AND name = :name
     AND token = CAST(:token AS bigint)
     AND expires > {now}
     FOR UPDATE SKIP LOCKED
), broken AS (
  UPDATE {schema}lease
     SET token = nextval('{schema}token'),
         owner = '',
         hold_until = 0,
         expires = {now},
         changed = {now}
   WHERE scope = :scope
     AND name = :name
     AND token = CAST(:token AS bigint)
     AND expires > {now}
     AND EXISTS (SELECT 1 FROM held)
  RETURNING scope, name, token, owner, holder, resources, acquired, expires, changed
), announced AS (
  INSERT INTO {schema}fence AS f (scope, resource, token, seen)
  SELECT broken.scope, resource, broken.token, {now}
    FROM broken, jsonb_array_elements_text(CAST(broken.resources AS jsonb)) AS given(resource)
      ON CONFLICT (scope, resource) DO UPDATE
     SET token = EXCLUDED.token,
         seen = EXCLUDED.seen
   WHERE f.token < EXCLUDED.token
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, token, replica, detail)
  SELECT {now}, 'lock.broken', '', broken.name, held.token, held.holder,
         CAST(:by AS text) || ': ' || CAST(:reason AS text)
    FROM broken, held
)
SELECT broken.*, {now} FROM broken

-- name: lease_give_up
DELETE FROM {schema}waiter
 WHERE scope = :scope
   AND name = :name
   AND owner = :owner
RETURNING name

-- name: lease_list
SELECT scope, name, token, owner, holder, resources, acquired, expires, changed, {now},
       (SELECT count(*) FROM {schema}waiter AS w
         WHERE w.scope = l.scope AND w.name = l.name AND w.until > {now})
  FROM {schema}lease AS l
 WHERE (CAST(:scope AS text) = '' OR scope = :scope)
   AND (CAST(:name AS text) = '' OR name = :name)
   AND (CAST(:free AS integer) = 1 OR expires > {now})
 ORDER BY scope, name
 LIMIT CAST(:limit AS bigint)

-- name: lease_purge
-- Only what nobody has or keeps: the row's own lock decides, a lock just taken is skipped.
WITH old AS MATERIALIZED (
  SELECT scope, name
    FROM {schema}lease
   WHERE changed < {now} - CAST(:unused AS bigint)
     AND expires < {now} - CAST(:unused AS bigint)
   ORDER BY scope, name
   LIMIT CAST(:limit AS bigint)
     FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM {schema}waiter
   WHERE until < {now} - CAST(:unused AS bigint)
)
DELETE FROM {schema}lease AS l
 USING old
 WHERE l.scope = old.scope
   AND l.name = old.name
   AND l.expires < {now} - CAST(:unused AS bigint)
RETURNING l.name
