-- What the scripts about locks and fences share.
local KEEP_UNUSED = 86400000000
local KEEP_FENCE = 400 * 86400000000

local function key_of(lease)
  return root .. 'lease:' .. lease.scope .. '\0' .. lease.name
end

local function read(scope, name)
  local key = root .. 'lease:' .. scope .. '\0' .. name
  local found = redis.call('HMGET', key, 'token', 'acquired', 'hold_until', 'expires', 'changed',
                           'owner', 'holder', 'resources')
  return {scope = scope, name = name, token = tonumber(found[1]) or 0,
          acquired = tonumber(found[2]) or 0, hold_until = tonumber(found[3]) or 0,
          expires = tonumber(found[4]) or 0, changed = tonumber(found[5]) or 0,
          owner = found[6] or '', holder = found[7] or '', resources = found[8] or '[]'}
end

local function write(lease)
  local key = key_of(lease)
  redis.call('HSET', key, 'token', digits(lease.token), 'acquired', digits(lease.acquired),
             'hold_until', digits(lease.hold_until), 'expires', digits(lease.expires),
             'changed', digits(lease.changed), 'owner', lease.owner, 'holder', lease.holder,
             'resources', lease.resources)
  keep(key, math.max(lease.expires, now) + KEEP_UNUSED)
  redis.call('ZADD', root .. 'leases', digits(lease.expires), lease.scope .. '\0' .. lease.name)
  -- The list of locks forgets those whose keys have gone by themselves: now and then, by chance.
  if lease.token % 16 == 0 then
    redis.call('ZREMRANGEBYSCORE', root .. 'leases', '-inf', '(' .. digits(now - 2 * KEEP_UNUSED))
  end
end

-- As it is given back: its key already lives on for long enough, and its place in the list of locks
-- is by when the lease would have ended.
local function free(lease, expires)
  lease.owner, lease.expires, lease.changed = '', expires, now
  redis.call('HSET', key_of(lease), 'owner', '', 'expires', digits(expires), 'changed', digits(now))
end

local function waiters(lease)
  return root .. 'waiters:' .. lease.scope .. '\0' .. lease.name
end

local function fence(scope, resource)
  return root .. 'fence:' .. scope .. '\0' .. resource
end

local function note(scope, resource, token)
  redis.call('HSET', fence(scope, resource), 'token', digits(token), 'seen', digits(now))
  keep(fence(scope, resource), now + KEEP_FENCE)
  redis.call('ZADD', root .. 'fences', digits(now), scope .. '\0' .. resource)
  redis.call('ZREMRANGEBYSCORE', root .. 'fences', '-inf', '(' .. digits(now - KEEP_FENCE))
end

local function announce(lease)
  for _, resource in ipairs(cjson.decode(lease.resources)) do
    local known = tonumber(redis.call('HGET', fence(lease.scope, resource), 'token')) or 0
    if known < lease.token then
      note(lease.scope, resource, lease.token)
    end
  end
end

-- Higher than every token of this name, and than any that was shown at what it protects; and never
-- below the server's clock, so that it rises even after the data was wiped.
local function fresh(lease)
  local token = math.max(lease.token + 1, server_now)
  if lease.resources ~= '[]' then
    for _, resource in ipairs(cjson.decode(lease.resources)) do
      local known = tonumber(redis.call('HGET', fence(lease.scope, resource), 'token')) or 0
      token = math.max(token, known + 1)
    end
  end
  return token
end

-- Whoever changes the lock's hands gets a fresh token, announced at what the lock protects.
local function take(lease, resources)
  lease.owner, lease.holder, lease.resources = given.owner, given.holder, resources
  lease.token = fresh(lease)
  lease.acquired, lease.changed = now, now
  lease.hold_until = now + given.at_least
  lease.expires = now + math.max(given.ttl, given.at_least)
  write(lease)
  if resources ~= '[]' then
    announce(lease)
  end
end

local function row(lease, more)
  return string.format('[%s,%s,%.0f,%s,%s,%s,%.0f,%.0f,%.0f,%.0f%s]', cjson.encode(lease.scope),
                       cjson.encode(lease.name), lease.token, cjson.encode(lease.owner),
                       cjson.encode(lease.holder), cjson.encode(lease.resources), lease.acquired,
                       lease.expires, lease.changed, now, more or '')
end

-- name: lease_take
-- The quick way, for a lock that was given back: free, and nobody's lease that lapsed.
local lease = read(given.scope, given.name)
if lease.token == 0 or lease.owner ~= '' or lease.expires > now then
  return {}
end
take(lease, '[]')
return {row(lease)}

-- name: lease_acquire
-- Nobody's transaction can be in the way here, so a name that is new is taken at once. Whoever let
-- its lease lapse is told of.
local lease = read(given.scope, given.name)
if lease.expires <= now then
  if lease.owner ~= '' then
    tell({kind = 'lock.lapsed', key = lease.name, token = lease.token, replica = lease.holder,
          detail = given.holder})
  end
  take(lease, given.resources)
  if given.wait > 0 then
    redis.call('ZREM', waiters(lease), given.owner)
  end
elseif given.wait > 0 and lease.owner ~= given.owner then
  redis.call('ZADD', waiters(lease), 'NX', digits(now + given.wait), given.owner)
  redis.call('ZREMRANGEBYSCORE', waiters(lease), '-inf', digits(now))
  keep(waiters(lease), now + math.max(given.wait, KEEP_UNUSED))
end
return {row(lease)}

-- name: lease_renew
-- Each by (token, owner), and only while it lasts: a lease that has lapsed is not revived.
local renewed = {}
for _, one in ipairs(cjson.decode(given.held)) do
  local lease = read(one.scope, one.name)
  if lease.token == one.token and lease.owner == one.owner and lease.expires > now then
    lease.expires = math.max(now + one.ttl, lease.hold_until)
    write(lease)
    renewed[#renewed + 1] = {lease.owner}
  end
end
return renewed

-- name: lease_release
-- By (token, owner): whoever lost the lock has nothing to give back. The minimum is kept. Asked again
-- after a lost reply it finds its own token, given back: that was done.
local lease = read(given.scope, given.name)
if lease.token ~= given.token or (lease.owner ~= given.owner and lease.owner ~= '') then
  return {}
end
if lease.owner == '' then
  return {{lease.name}}
end
free(lease, math.max(now, lease.hold_until))
return {{lease.name}}

-- name: lease_undo
-- By the owner alone, who was never told a token; and at once, since nothing ran.
local lease = read(given.scope, given.name)
if lease.token == 0 or lease.owner ~= given.owner then
  return {}
end
lease.owner, lease.hold_until, lease.expires, lease.changed = '', 0, now, now
write(lease)
return {{lease.name}}

-- name: lease_give_up
local lease = {scope = given.scope, name = given.name}
return redis.call('ZREM', waiters(lease), given.owner) == 1 and {{given.name}} or {}

-- name: lease_fence
-- No transaction here could keep it so: this only tells whether it is held.
local lease = read(given.scope, given.name)
if lease.token ~= given.token or lease.owner ~= given.owner or lease.expires <= now then
  return {}
end
return {{lease.name}}

-- name: lease_break
-- From exactly the holder that was read, under a higher token, announced at its resources.
local lease = read(given.scope, given.name)
if lease.token ~= given.token or lease.expires <= now then
  return {}
end
tell({kind = 'lock.broken', key = lease.name, token = lease.token, replica = lease.holder,
      detail = given.by .. ': ' .. given.reason})
lease.token, lease.owner = fresh(lease), ''
lease.hold_until, lease.expires, lease.changed = 0, now, now
write(lease)
announce(lease)
return {row(lease)}

-- name: lease_list
local least = given.free == 1 and '-inf' or '(' .. digits(now)
local found = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', root .. 'leases', least, '+inf')) do
  local part = string.find(member, '\0', 1, true)
  local lease = read(string.sub(member, 1, part - 1), string.sub(member, part + 1))
  if (given.scope == '' or given.scope == lease.scope)
     and (given.name == '' or given.name == lease.name)
     and (given.free == 1 or lease.expires > now) and lease.changed > 0 then
    found[#found + 1] = lease
  end
end
table.sort(found, function(a, b)
  if a.scope ~= b.scope then return a.scope < b.scope end
  return a.name < b.name
end)
local shown = {}
for place = 1, math.min(#found, given.limit) do
  local waiting = redis.call('ZCOUNT', waiters(found[place]), '(' .. digits(now), '+inf')
  shown[place] = row(found[place], ',' .. digits(waiting))
end
return shown

-- name: lease_purge
-- Keys go by themselves; this is for whoever will not wait.
local purged, old = {}, now - given.unused
for _, member in ipairs(redis.call('ZRANGE', root .. 'leases', 0, -1)) do
  local part = string.find(member, '\0', 1, true)
  local lease = read(string.sub(member, 1, part - 1), string.sub(member, part + 1))
  if lease.changed < old and lease.expires < old and #purged < given.limit then
    redis.call('DEL', root .. 'lease:' .. member)
    redis.call('ZREM', root .. 'leases', member)
    purged[#purged + 1] = {lease.name}
  end
end
return purged

-- name: fence_check
-- The highest token that was ever shown here wins; the comparison and the note are one step. One far
-- above the clock nobody was given: noted, it would shut the resource to everybody.
local known = tonumber(redis.call('HGET', fence(given.scope, given.resource), 'token')) or 0
if known > given.token or given.token > math.max(known, server_now + 86400000000) then
  return {}
end
note(given.scope, given.resource, given.token)
return {{given.resource}}

-- name: fence_known
local known = redis.call('HGET', fence(given.scope, given.resource), 'token')
return known and {{tonumber(known)}} or {}

-- name: fence_purge
local purged = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', root .. 'fences', '-inf',
                                   '(' .. digits(now - given.unused), 'LIMIT', 0,
                                   digits(given.limit))) do
  redis.call('DEL', root .. 'fence:' .. member)
  redis.call('ZREM', root .. 'fences', member)
  purged[#purged + 1] = {member}
end
return purged
