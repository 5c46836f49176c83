-- name: run_claim
-- why: one writer at a time, so nothing to skip; tokens from the counter row. CROSS JOIN keeps the
-- probes in front and INDEXED BY the order within each, so LIMIT stops without sorting a backlog.
-- answer
UPDATE {schema}run AS r
   SET state = 'running',
       attempt = r.attempt + 1,
       token = (SELECT value FROM {schema}counter WHERE name = 'token') + picked.n,
       replica = :replica,
       started = {now}
  FROM (SELECT id, row_number() OVER () AS n
          FROM (SELECT r.id
                  FROM json_each(:probes) AS probe
                 CROSS JOIN {schema}run AS r INDEXED BY {schema}run_claim
                 WHERE r.state = 'scheduled'
                   AND r.deaths = 0
                   AND r.queue = json_extract(probe.value, '$.queue')
                   AND r.priority = json_extract(probe.value, '$.priority')
                   AND (r.due, r.id) > (json_extract(probe.value, '$.due'),
                                        json_extract(probe.value, '$.id'))
                   AND r.due <= {now}
                   AND r.job IN (SELECT value FROM json_each(:jobs))
                 LIMIT :limit)) AS picked
 WHERE r.id = picked.id
   AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = :replica AND dead_at = 0)
RETURNING id, token, replica, job, key, kind, queue, priority, due, wanted,
          attempt, deaths, interrupted, args, schedule, fire_time, started
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: run_claim_alone
-- why: as run_claim
-- answer
UPDATE {schema}run AS r
   SET state = 'running',
       attempt = r.attempt + 1,
       token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       replica = :replica,
       started = {now}
 WHERE r.id = (SELECT id
                 FROM {schema}run
                WHERE state = 'scheduled'
                  AND deaths > 0
                  AND queue IN (SELECT value FROM json_each(:queues))
                  AND due <= {now}
                  AND job IN (SELECT value FROM json_each(:jobs))
                ORDER BY due, id
                LIMIT 1)
   AND EXISTS (SELECT 1 FROM {schema}replica WHERE id = :replica AND dead_at = 0)
RETURNING id, token, replica, job, key, kind, queue, priority, due, wanted,
          attempt, deaths, interrupted, args, schedule, fire_time, started
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: run_settle
-- why: no data-modifying CTEs; the write lock makes "read, then write" safe between the steps.
-- answer
SELECT r.id, r.token, r.replica
  FROM json_each(:batch) AS b
  JOIN {schema}run AS r
    ON r.id = json_extract(b.value, '$.id')
   AND r.token = json_extract(b.value, '$.token')
   AND r.replica = json_extract(b.value, '$.replica')
   AND r.state = 'running'
-- then
INSERT INTO {schema}history (id, token, job, key, kind, keyed, queue, priority, due, wanted,
                             created, attempt, deaths, interrupted, replica, started, ended,
                             keep_until, outcome, on_loss, schedule, fire_time, args, error,
                             result, progress)
SELECT r.id, r.token, r.job, r.key, r.kind, r.keyed, r.queue, r.priority, r.due, r.wanted,
       r.created, r.attempt, r.deaths + COALESCE(json_extract(b.value, '$.deaths'), 0),
       r.interrupted, r.replica, r.started, {now}, {now} + :keep,
       json_extract(b.value, '$.outcome'), r.on_loss, r.schedule, r.fire_time, r.args,
       json_extract(b.value, '$.error'), json_extract(b.value, '$.result'), r.progress
  FROM json_each(:batch) AS b
  JOIN {schema}run AS r
    ON r.id = json_extract(b.value, '$.id')
   AND r.token = json_extract(b.value, '$.token')
   AND r.replica = json_extract(b.value, '$.replica')
   AND r.state = 'running'
 WHERE json_extract(b.value, '$.to') = 'ended'
-- then
INSERT INTO {schema}event (at, kind, job, key, run_id, token, replica, schedule, detail)
SELECT {now}, 'attempt.' || json_extract(b.value, '$.outcome'), r.job, r.key, r.id, r.token,
       r.replica, r.schedule,
       json_object('attempt', r.attempt, 'error', json_extract(b.value, '$.error'),
                   'to', json_extract(b.value, '$.to'), 'delay', json_extract(b.value, '$.delay'))
  FROM json_each(:batch) AS b
  JOIN {schema}run AS r
    ON r.id = json_extract(b.value, '$.id')
   AND r.token = json_extract(b.value, '$.token')
   AND r.replica = json_extract(b.value, '$.replica')
   AND r.state = 'running'
 WHERE json_extract(b.value, '$.outcome') <> 'succeeded'
 UNION ALL
SELECT {now}, 'run.late', r.job, r.key, r.id, r.token, r.replica, r.schedule,
       json_object('expected', r.expect_by, 'state', json_extract(b.value, '$.to'))
  FROM json_each(:batch) AS b
  JOIN {schema}run AS r
    ON r.id = json_extract(b.value, '$.id')
   AND r.token = json_extract(b.value, '$.token')
   AND r.replica = json_extract(b.value, '$.replica')
   AND r.state = 'running'
 WHERE r.expect_by > 0
   AND r.expect_by < {now}
   AND json_extract(b.value, '$.to') = 'ended'
 ORDER BY 5, 2
-- then
DELETE FROM {schema}run
 WHERE id IN (SELECT r.id
                FROM json_each(:batch) AS b
                JOIN {schema}run AS r
                  ON r.id = json_extract(b.value, '$.id')
                 AND r.token = json_extract(b.value, '$.token')
                 AND r.replica = json_extract(b.value, '$.replica')
                 AND r.state = 'running'
               WHERE json_extract(b.value, '$.to') = 'ended')
-- then
UPDATE {schema}run AS r
   SET state = json_extract(b.value, '$.to'),
       due = max(r.due, {now} + COALESCE(json_extract(b.value, '$.delay'), 0)),
       attempt = r.attempt - COALESCE(json_extract(b.value, '$.refund'), 0),
       deaths = r.deaths + COALESCE(json_extract(b.value, '$.deaths'), 0),
       interrupted = r.interrupted + COALESCE(json_extract(b.value, '$.interrupted'), 0),
       replica = '',
       error = COALESCE(json_extract(b.value, '$.error'), r.error)
  FROM json_each(:batch) AS b
 WHERE r.id = json_extract(b.value, '$.id')
   AND r.token = json_extract(b.value, '$.token')
   AND r.replica = json_extract(b.value, '$.replica')
   AND r.state = 'running'
   AND json_extract(b.value, '$.to') <> 'ended'
-- then
UPDATE {schema}run
   SET state = 'scheduled',
       behind = 0,
       due = max(due, {now})
 WHERE id IN (SELECT first.id
                FROM (SELECT schedule, min(id) AS id
                        FROM {schema}run INDEXED BY {schema}run_behind
                       WHERE state = 'waiting' AND behind > 0
                       GROUP BY schedule) AS first
               WHERE NOT EXISTS (SELECT 1
                                   FROM {schema}run AS other
                                  WHERE other.schedule = first.schedule
                                    AND other.schedule <> ''
                                    AND other.behind = 0
                                    AND other.state IN ('scheduled', 'running', 'waiting')))

-- name: run_standings
-- why: json_each
SELECT id, token, replica, state
  FROM {schema}run
 WHERE id IN (SELECT value FROM json_each(:ids))
 UNION ALL
SELECT id, token, replica, 'ended'
  FROM {schema}history
 WHERE id IN (SELECT value FROM json_each(:ids))

-- name: run_fence
-- why: no row locks. A write, even one that changes nothing, takes the one write lock to the end of
-- the transaction; how long it may be held is bounded by the caller (there is no server to end it).
UPDATE {schema}run
   SET token = token
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
RETURNING id

-- name: run_free
-- why: no row locks. Whether the one write lock is held, the connection itself tells, so nobody asks.
SELECT id
  FROM {schema}run
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'

-- name: run_progress
-- why: no row locks
UPDATE {schema}run
   SET progress = :note
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
RETURNING id

-- name: run_retry
-- why: no data-modifying CTEs; the event is written first, from what the next steps will find
INSERT INTO {schema}event (at, kind, job, key, run_id, token, schedule)
SELECT {now}, 'run.retried', h.job, h.key, h.id, h.token, h.schedule
  FROM {schema}history AS h
 WHERE h.id = :id
   AND h.token = (SELECT max(token) FROM {schema}history WHERE id = :id)
   AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = :id)
   AND (h.keyed = 0
        OR EXISTS (SELECT 1 FROM {schema}ledger
                    WHERE kind = h.kind AND scope = h.job AND key = h.key AND run_id = h.id))
 UNION ALL
SELECT {now}, 'run.retried', job, key, id, token, schedule
  FROM {schema}run
 WHERE id = :id
   AND state IN ('parked', 'unknown')
-- then
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         attempt, token, on_loss, schedule, fire_time, args, error, progress)
SELECT h.id, h.job, h.key, h.kind, h.keyed, h.queue, h.priority, 'retrying', {now}, h.wanted,
       h.created, h.attempt, h.token, h.on_loss, h.schedule, h.fire_time, h.args, h.error,
       h.progress
  FROM {schema}history AS h
 WHERE h.id = :id
   AND h.token = (SELECT max(token) FROM {schema}history WHERE id = :id)
   AND (h.keyed = 0
        OR EXISTS (SELECT 1 FROM {schema}ledger
                    WHERE kind = h.kind AND scope = h.job AND key = h.key AND run_id = h.id))
    ON CONFLICT (id) DO NOTHING
-- then
-- answer
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now}),
       deaths = 0
 WHERE id = :id
   AND state IN ('parked', 'unknown', 'retrying')
RETURNING id

-- name: run_purge
-- why: no data-modifying CTEs; the same batch is picked in each step because nothing else writes
DELETE FROM {schema}event
 WHERE run_id > 0
   AND run_id IN (SELECT id
                    FROM (SELECT id FROM {schema}history WHERE keep_until < {now}
                           ORDER BY id, token LIMIT :limit) AS old
                   WHERE NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = old.id)
                     AND NOT EXISTS (SELECT 1 FROM {schema}history
                                      WHERE id = old.id AND keep_until >= {now}))
-- then
DELETE FROM {schema}ledger
 WHERE (kind, scope, key, run_id) IN (
         SELECT kind, job, key, id
           FROM (SELECT id, kind, job, key, keyed FROM {schema}history WHERE keep_until < {now}
                  ORDER BY id, token LIMIT :limit) AS old
          WHERE keyed = 1
            AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = old.id)
            AND NOT EXISTS (SELECT 1 FROM {schema}history
                             WHERE id = old.id AND keep_until >= {now}))
-- then
-- answer
DELETE FROM {schema}history
 WHERE (id, token) IN (SELECT id, token FROM {schema}history WHERE keep_until < {now}
                        ORDER BY id, token LIMIT :limit)
RETURNING id
