-- Stands before every script. KEYS[1] is the root of an App's keys and holds their one hash tag, so
-- that a cluster keeps them in one place; ARGV[1] is the command's parameters as JSON, without those
-- that are not given. A script answers with rows, as one JSON text: it is read in a third of the time
-- that nested replies take. Numbers stay below 2^53, where Lua's are exact; they are written with all
-- their digits, since Lua by itself shows fourteen.
local given = cjson.decode(ARGV[1])
local root = KEYS[1]
local clock = redis.call('TIME')
local server_now = clock[1] * 1000000 + clock[2]
local now = given.now or server_now

local function digits(number)
  return string.format('%.0f', number)
end

-- A row may also be given as the JSON text that it is to be.
local function answer(rows)
  for place, row in ipairs(rows) do
    if type(row) == 'table' then
      for column, value in ipairs(row) do
        row[column] = type(value) == 'number' and digits(value)
                      or value and cjson.encode(value) or 'null'
      end
      rows[place] = '[' .. table.concat(row, ',') .. ']'
    end
  end
  return '[' .. table.concat(rows, ',') .. ']'
end

-- What was handed out last plus one, and never less than the clock: so tokens rise even after the
-- data was wiped, or a replica without the last number was promoted.
local function next_token()
  local token = math.max((tonumber(redis.call('GET', root .. 'token')) or 0) + 1, server_now)
  redis.call('SET', root .. 'token', digits(token))
  return token
end

-- A key lives as long as anybody may ask for it, and then goes by itself.
local function keep(key, until_when)
  redis.call('PEXPIRE', key, digits(math.max(math.ceil((until_when - now) / 1000), 1)))
end

local function tell(event)
  local id = redis.call('INCR', root .. 'event')
  redis.call('XADD', root .. 'events', 'MAXLEN', '~', '10000', digits(id) .. '-1',
             'at', digits(now), 'kind', event.kind, 'job', event.job or '', 'key', event.key or '',
             'token', digits(event.token or 0), 'replica', event.replica or '',
             'schedule', event.schedule or '', 'detail', event.detail or '')
end
