-- name: view_clock
return {{now}}

-- name: view_events
local found = {}
for _, entry in ipairs(redis.call('XRANGE', root .. 'events', '-', '+')) do
  local event = {}
  for place = 1, #entry[2], 2 do
    event[entry[2][place]] = entry[2][place + 1]
  end
  local at = tonumber(event.at)
  if given.run_id == 0 and (given.schedule == '' or given.schedule == event.schedule)
     and at >= given.since and (given['until'] == 0 or at <= given['until'])
     and #found < given.limit then
    found[#found + 1] = {tonumber(string.match(entry[1], '^%d+')), at, event.kind, event.job,
                         event.key, 0, tonumber(event.token), event.replica, event.schedule,
                         event.detail}
  end
end
return found

-- name: view_breaks
local found = {}
for _, entry in ipairs(redis.call('XREVRANGE', root .. 'events', '+', '-')) do
  local event = {}
  for place = 1, #entry[2], 2 do
    event[entry[2][place]] = entry[2][place + 1]
  end
  if event.kind == 'lock.broken' and event.key == given.name and #found < given.limit then
    found[#found + 1] = {tonumber(string.match(entry[1], '^%d+')), tonumber(event.at), event.kind,
                         event.job, event.key, 0, tonumber(event.token), event.replica,
                         event.schedule, event.detail}
  end
end
return found
