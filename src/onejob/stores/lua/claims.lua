-- What the scripts about claims share: rows of the ledger of the kinds period and schedule.
local SET_BACK = 60000000
local KEEP_LAPSED = 86400000000
local FIELDS = {'token', 'attempt', 'claimed', 'claim_until', 'kept_until'}

local function read(member)
  local found = redis.call('HMGET', root .. 'claim:' .. member, 'token', 'attempt', 'claimed',
                           'claim_until', 'kept_until', 'kind', 'scope', 'key', 'state', 'owner',
                           'error')
  if not found[9] then
    return nil
  end
  local claim = {member = member, kind = found[6], scope = found[7], key = found[8],
                 state = found[9], owner = found[10], error = found[11]}
  for place, field in ipairs(FIELDS) do
    claim[field] = tonumber(found[place]) or 0
  end
  return claim
end

local function member_of(one)
  return one.kind .. '\0' .. one.scope .. '\0' .. one.key
end

local function write(claim)
  local key = root .. 'claim:' .. claim.member
  redis.call('HSET', key, 'token', digits(claim.token), 'attempt', digits(claim.attempt),
             'claimed', digits(claim.claimed), 'claim_until', digits(claim.claim_until),
             'kept_until', digits(claim.kept_until), 'kind', claim.kind, 'scope', claim.scope,
             'key', claim.key, 'state', claim.state, 'owner', claim.owner)
  if claim.error then
    redis.call('HSET', key, 'error', claim.error)
  else
    redis.call('HDEL', key, 'error')
  end
  keep(key, math.max(claim.kept_until, claim.claim_until + KEEP_LAPSED) + KEEP_LAPSED)
  redis.call('ZADD', root .. 'claims:' .. claim.kind, digits(claim.kept_until), claim.member)
end

local function held(one, also)
  local claim = read(member_of(one))
  if claim and claim.token == one.token and claim.owner == one.owner
     and (claim.state == 'claimed' or claim.state == 'firing' or claim.state == also) then
    return claim
  end
  return nil
end

local function tell_of(what, claim, by, detail)
  local subject = claim.kind == 'schedule' and 'tick' or claim.kind
  tell({kind = subject .. '.' .. what, job = claim.scope, key = claim.key, token = claim.token,
        replica = by, schedule = claim.scope, detail = cjson.encode(detail)})
end

local function shown(claim)
  return {claim.kind, claim.scope, claim.key, claim.state, claim.token, claim.owner, claim.attempt,
          claim.claimed, claim.claim_until, claim.error or false, now}
end

-- name: claim_take
-- Free, lapsed before it began to fire (or even then, where told so), or the next tick of the same
-- name has come. A clock that was set back by more than a spacing and a minute is not waited for.
local claim = read(member_of(given))
if not claim then
  claim = {member = member_of(given), kind = given.kind, scope = given.scope, key = given.key,
           state = 'free', owner = '', token = 0, attempt = 0, claimed = now, claim_until = 0}
end
local spacing = given.spacing
local same_tick = now >= claim.claimed - spacing - SET_BACK and now < claim.claimed + spacing
local won = claim.state == 'free'
  or (claim.state == 'claimed' and claim.claim_until <= now)
  or (claim.state == 'firing' and claim.claim_until <= now and given.even_if_unsure == 1)
  or (spacing > 0 and not same_tick)
if won then
  if claim.state == 'claimed' or claim.state == 'firing' then
    tell_of('abandoned', claim, claim.owner, {taken_by = given.owner, state = claim.state})
  end
  claim.state, claim.owner, claim.error = 'claimed', given.owner, nil
  claim.token = next_token()
  if same_tick or spacing == 0 then
    claim.attempt = claim.attempt + 1
  else
    claim.attempt = 1
  end
  if not same_tick then
    claim.claimed = now
  end
  claim.claim_until, claim.kept_until = now + given.lease, now + given.lease + given.keep
  write(claim)
elseif given.tell == 1 and claim.owner ~= given.owner then
  tell_of('lost', claim, given.owner, {holder = claim.owner, state = claim.state})
end
return {{won and 1 or 0, claim.state, claim.token, claim.owner, claim.attempt, claim.claimed,
         claim.claim_until, now}}

-- name: claim_mark
-- Also a renewal: whoever says so just before the lease ends has a whole one to do it in.
local claim = held(given)
if not claim then
  return {}
end
claim.state, claim.claim_until = 'firing', now + given.lease
write(claim)
return {{claim.key}}

-- name: claim_end
-- Accepted after the lease too, while nobody has taken over: the holder knows the truth.
local claim = held(given, given.state)
if not claim then
  return {}
end
claim.error = given.error or nil
if claim.state ~= given.state then
  claim.state, claim.claim_until, claim.kept_until = given.state, now, now + given.keep
end
write(claim)
return {{claim.key}}

-- name: claim_release
-- By (token, owner). The row stays, free, and its next token is a later one.
local claim = held(given, 'free')
if not claim then
  return {}
end
if claim.state ~= 'free' then
  tell_of('released', claim, claim.owner, {error = given.error or cjson.null})
  claim.state, claim.error = 'free', given.error or nil
  claim.claim_until, claim.kept_until = now, now + given.keep
  write(claim)
end
return {{claim.key}}

-- name: claim_renew
-- Each under its own (token, owner).
local renewed = {}
for _, one in ipairs(cjson.decode(given.batch)) do
  local claim = held(one)
  if claim then
    claim.claim_until = now + one.lease
    write(claim)
    renewed[#renewed + 1] = {claim.owner}
  end
end
return renewed

-- name: claim_read
local found = {}
local keys = cjson.decode(given.keys)
table.sort(keys)
for _, key in ipairs(keys) do
  local claim = read(member_of({kind = given.kind, scope = given.scope, key = key}))
  if claim then
    found[#found + 1] = shown(claim)
  end
end
return found

-- name: claim_listed
-- The ten thousand that are kept longest are looked at: the latest ones.
local found = {}
for _, member in ipairs(redis.call('ZREVRANGE', root .. 'claims:' .. given.kind, 0, 9999)) do
  local claim = read(member)
  if claim and (given.scope == '' or given.scope == claim.scope)
     and (given.lapsed == 0 or ((claim.state == 'claimed' or claim.state == 'firing')
                                and claim.claim_until <= now)) then
    found[#found + 1] = shown(claim)
  end
end
table.sort(found, function(a, b)
  if a[8] ~= b[8] then return a[8] > b[8] end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] < b[3]
end)
return {unpack(found, 1, math.min(#found, given.limit))}

-- name: ledger_purge
-- Claims that ended, were given back, or were abandoned, past their time. Keys go by themselves a
-- little later; this keeps the list of them as short as the keys are few.
local purged = {}
for _, kind in ipairs({'period', 'schedule'}) do
  local index = root .. 'claims:' .. kind
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. digits(now),
                                     'LIMIT', 0, digits(given.limit))) do
    local claim = read(member)
    local open = claim and (claim.state == 'claimed' or claim.state == 'firing')
    if not open or claim.claim_until <= now then
      redis.call('DEL', root .. 'claim:' .. member)
      redis.call('ZREM', index, member)
      purged[#purged + 1] = {member}
    end
  end
end
return purged
