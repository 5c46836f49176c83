-- name: schedule_due
-- Declared ones are looked for by name and dynamic ones by the jobs known here, so that what nobody
-- here fires costs nothing, however much of it is due. The first row has the clock, and as its
-- next_fire when the next of them is.
WITH named AS (
  SELECT one.*
    FROM jsonb_array_elements_text(CAST(:names AS jsonb)) AS mine(name)
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}schedule
                        WHERE name = mine.name
                          AND dynamic = 0
                          AND next_fire > 0
                          AND paused = 0
                          AND broken = ''
                        LIMIT 1) AS one
), known AS (
  SELECT jsonb_array_elements_text(CAST(:jobs AS jsonb)) AS job
), found AS MATERIALIZED (
  SELECT * FROM named WHERE next_fire <= {now}
   UNION ALL
  SELECT put.*
    FROM known
   CROSS JOIN LATERAL (SELECT *
                         FROM {schema}schedule
                        WHERE dynamic = 1
                          AND next_fire > 0
                          AND paused = 0
                          AND broken = ''
                          AND job = known.job
                          AND next_fire <= {now}
                        ORDER BY next_fire, name
                        LIMIT CAST(:limit AS bigint) + CAST(:skip AS bigint)) AS put
), ahead AS (
  SELECT next_fire FROM named WHERE next_fire > {now}
   UNION ALL
  SELECT put.next_fire
    FROM known
   CROSS JOIN LATERAL (SELECT next_fire
                         FROM {schema}schedule
                        WHERE dynamic = 1
                          AND next_fire > 0
                          AND paused = 0
                          AND broken = ''
                          AND job = known.job
                          AND next_fire > {now}
                        ORDER BY next_fire
                        LIMIT 1) AS put
)
SELECT {now}, s.name, s.job, s.timing, s.policy, s.definition, s.version, s.superseded, s.last,
       s.next_fire, s.paused, s.broken, s.revision, s.dynamic, s.args, s.queue, s.priority,
       s.on_loss
  FROM (SELECT *
          FROM found
         ORDER BY next_fire, name
         LIMIT CAST(:limit AS bigint)
        OFFSET CAST(:skip AS bigint)) AS s
 UNION ALL
SELECT {now}, '', '', '', '', '', '', '', 0, COALESCE((SELECT min(next_fire) FROM ahead), 0), 0,
       '', 0, 0, '', '', 0, ''
 ORDER BY 2

-- name: schedule_tick
-- Exactly one scheduler finds the revision that it read. Rows in name order, or two schedulers
-- deadlock; SKIP LOCKED, or somebody's open pause blocks every schedule. A step with a fire time
-- later than now (the clock was set back since it was decided) changes nothing at all.
WITH given AS (
  SELECT *
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS batch(name text, revision bigint, last bigint, next_fire bigint, missed text,
               missed_count bigint, overlap text, fires jsonb)
), held AS MATERIALIZED (
  SELECT s.name, s.job, given.last, given.next_fire, given.missed, given.missed_count,
         given.overlap, given.fires
    FROM given
    JOIN {schema}schedule AS s
      ON s.name = given.name
     AND s.revision = given.revision
     AND s.paused = 0
     AND s.broken = ''
   WHERE NOT EXISTS (SELECT 1
                       FROM jsonb_to_recordset(given.fires) AS fire(fire_time bigint)
                      WHERE fire.fire_time > {now})
   ORDER BY s.name
     FOR NO KEY UPDATE OF s SKIP LOCKED
), advanced AS (
  UPDATE {schema}schedule AS s
     SET last = GREATEST(s.last, held.last),
         next_fire = held.next_fire,
         missed = s.missed + held.missed_count,
         lateness = CASE WHEN held.last > s.last THEN {now} - held.last ELSE s.lateness END,
         revision = s.revision + 1
    FROM held
   WHERE s.name = held.name
), fires AS MATERIALIZED (
  SELECT held.name, held.overlap, fire.*, nextval('{schema}run_id') AS id
    FROM held
   CROSS JOIN LATERAL jsonb_to_recordset(held.fires)
      AS fire(key text, fire_time bigint, due bigint, expect bigint, job text, args text,
              queue text, priority integer, on_loss text)
), blocked AS MATERIALIZED (
  SELECT held.name, min(r.id) AS by
    FROM held
    JOIN {schema}run AS r
      ON r.schedule = held.name
     AND r.schedule <> ''
     AND r.state IN ('scheduled', 'running', 'waiting')
   WHERE held.overlap <> 'allow'
   GROUP BY held.name
), named AS (
  INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed)
  SELECT 'schedule', job, key, 'claimed', :replica, id, {now}
    FROM fires
   WHERE overlap <> 'skip'
      OR name NOT IN (SELECT name FROM blocked)
   ORDER BY job, key
      ON CONFLICT (kind, scope, key) DO NOTHING
  RETURNING run_id
), fresh AS MATERIALIZED (
  SELECT fires.*,
         CASE WHEN overlap NOT IN ('queue', 'cancel') THEN 0
              ELSE COALESCE(blocked.by,
                            NULLIF(first_value(id) OVER (PARTITION BY fires.name
                                                             ORDER BY fire_time, id), id),
                            0) END AS behind
    FROM fires
    JOIN named ON named.run_id = fires.id
    LEFT JOIN blocked ON blocked.name = fires.name
), made AS (
  INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                           on_loss, schedule, fire_time, args, behind, expect_by)
  SELECT id, job, key, 'schedule', 1, queue, priority,
         CASE WHEN behind > 0 THEN 'waiting' ELSE 'scheduled' END, GREATEST(due, {now}), fire_time,
         {now}, on_loss, name, fire_time, args, behind,
         CASE WHEN expect > 0 THEN fire_time + expect ELSE 0 END
    FROM fresh
), asked AS (
  INSERT INTO {schema}cancel (run_id, asked, why)
  SELECT DISTINCT r.id, {now}, 'overlap'
    FROM fresh
    JOIN {schema}run AS r
      ON r.schedule = fresh.name
     AND r.schedule <> ''
     AND r.state IN ('scheduled', 'running', 'waiting')
   WHERE fresh.overlap = 'cancel'
      ON CONFLICT (run_id) DO NOTHING
), answered AS MATERIALIZED (
  SELECT fires.name, fires.fire_time, fires.job, fires.key, fires.id,
         CASE WHEN fresh.id IS NOT NULL THEN fresh.behind
              WHEN fires.overlap = 'skip' THEN COALESCE(blocked.by, 0)
              ELSE 0 END AS by,
         CASE WHEN fresh.behind > 0 THEN 'queued'
              WHEN fresh.id IS NOT NULL THEN 'fired'
              WHEN fires.overlap = 'skip' AND blocked.by IS NOT NULL THEN 'skipped'
              ELSE 'known' END AS answer
    FROM fires
    LEFT JOIN fresh ON fresh.id = fires.id
    LEFT JOIN blocked ON blocked.name = fires.name
   ORDER BY fires.name, fires.fire_time, fires.id
), told AS (
  INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
  SELECT {now}, 'tick.' || answer, job, key, CASE WHEN answer = 'queued' THEN id ELSE by END,
         :replica, name, CAST(jsonb_build_object('fire_time', fire_time, 'by', by) AS text)
    FROM answered
   WHERE answer <> 'fired'
   UNION ALL
  SELECT {now}, 'tick.missed', job, '', 0, :replica, name, missed
    FROM held
   WHERE missed <> ''
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM {schema}replica WHERE idle = 1 AND dead_at = 0)
     AND EXISTS (SELECT 1 FROM fresh)
)
SELECT name, fire_time, CASE WHEN answer IN ('fired', 'queued') THEN id ELSE by END, answer
  FROM answered
 WHERE (SELECT count(*) FROM woken) >= 0
 ORDER BY name, fire_time

-- name: schedule_lost
-- Who went to fire a fire time and found it gone: once for each, told of the run that the winner made.
INSERT INTO {schema}event (at, kind, job, key, run_id, replica, schedule, detail)
SELECT {now}, 'tick.lost', won.scope, won.key, won.run_id, :replica, lost.name,
       CAST(jsonb_build_object('fire_time', lost.fire_time, 'by', won.owner) AS text)
  FROM jsonb_to_recordset(CAST(:batch AS jsonb))
    AS lost(name text, fire_time bigint, job text, key text)
  JOIN {schema}ledger AS won
    ON won.kind = 'schedule'
   AND won.scope = lost.job
   AND won.key = lost.key
   AND won.run_id > 0
   AND won.owner <> :replica
 WHERE NOT EXISTS (SELECT 1
                     FROM {schema}event
                    WHERE run_id = won.run_id
                      AND run_id > 0
                      AND kind = 'tick.lost'
                      AND replica = :replica)
 ORDER BY won.run_id
RETURNING run_id
