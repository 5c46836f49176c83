-- name: run_enqueue
-- The unique key of the ledger decides: a keyed run is made only by whoever inserted its key.
-- Keys are taken in order, so that two batches with the same keys cannot deadlock. Notifies only
-- when some worker has said that it is idle: a NOTIFY in every transaction serialises commits.
WITH given AS MATERIALIZED (
  SELECT batch.*, nextval('{schema}run_id') AS id
    FROM jsonb_to_recordset(CAST(:batch AS jsonb))
      AS batch(place integer, job text, key text, args text, keyed integer, kind text, queue text,
               priority integer, at bigint, delay bigint, on_loss text, fingerprint text,
               expect bigint)
), named AS (
  INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, fingerprint)
  SELECT kind, job, key, 'claimed', '', id, {now}, fingerprint
    FROM given
   WHERE keyed = 1
   ORDER BY kind, job, key
      ON CONFLICT (kind, scope, key) DO NOTHING
  RETURNING run_id
), made AS (
  INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                           on_loss, args, expect_by)
  SELECT id, job, key, kind, keyed, queue, priority, 'scheduled',
         GREATEST(COALESCE(at, {now}) + delay, {now}), COALESCE(at, {now}) + delay, {now},
         on_loss, args, CASE WHEN expect > 0 THEN COALESCE(at, {now}) + delay + expect ELSE 0 END
    FROM given
   WHERE keyed = 0
      OR id IN (SELECT run_id FROM named)
  RETURNING id
), woken AS MATERIALIZED (
  SELECT CAST(pg_notify('{schema}', '') AS text)
   WHERE EXISTS (SELECT 1 FROM {schema}replica WHERE idle = 1 AND dead_at = 0)
     AND EXISTS (SELECT 1 FROM made)
)
SELECT given.place, made.id
  FROM made
  JOIN given ON given.id = made.id
 WHERE (SELECT count(*) FROM woken) >= 0

-- name: run_enqueue_one
-- One run without a key of the caller's: a plain INSERT, since nothing can refuse it. Its place in
-- the answer, 0, is the length of what pg_notify says; evaluated only where a worker is idle.
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
VALUES (nextval('{schema}run_id'), :job, :key, :kind, 0, :queue, CAST(:priority AS integer),
        'scheduled',
        GREATEST(COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint), {now}),
        COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint), {now}, :on_loss, :args,
        CASE WHEN CAST(:expect AS bigint) > 0
             THEN COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint)
                + CAST(:expect AS bigint)
             ELSE 0 END)
RETURNING COALESCE((SELECT length(CAST(pg_notify('{schema}', '') AS text))
                      FROM {schema}replica
                     WHERE idle = 1
                       AND dead_at = 0
                     LIMIT 1), 0), id

-- name: run_enqueue_keyed
-- One run that the caller named: whoever inserts its key makes it, and nobody else.
WITH named AS (
  INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, fingerprint)
  VALUES (:kind, :job, :key, 'claimed', '', nextval('{schema}run_id'), {now}, :fingerprint)
      ON CONFLICT (kind, scope, key) DO NOTHING
  RETURNING run_id
)
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT run_id, :job, :key, :kind, 1, :queue, CAST(:priority AS integer), 'scheduled',
       GREATEST(COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint), {now}),
       COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint), {now}, :on_loss, :args,
       CASE WHEN CAST(:expect AS bigint) > 0
            THEN COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint)
               + CAST(:expect AS bigint)
            ELSE 0 END
  FROM named
RETURNING COALESCE((SELECT length(CAST(pg_notify('{schema}', '') AS text))
                      FROM {schema}replica
                     WHERE idle = 1
                       AND dead_at = 0
                     LIMIT 1), 0), id

-- name: run_enqueue_alike
-- Runs of one job that differ in their arguments alone, without keys of the caller's. Drawn after the
-- sort, ids rise as places do. json and not jsonb: each element keeps its text as it was written.
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT nextval('{schema}run_id'), :job, :stem || lpad(to_hex(given.place - 1), 8, '0'), :kind, 0,
       :queue, CAST(:priority AS integer), 'scheduled', GREATEST(at.wanted, at.now), at.wanted,
       at.now, :on_loss, CAST(given.args AS text),
       CASE WHEN CAST(:expect AS bigint) > 0 THEN at.wanted + CAST(:expect AS bigint) ELSE 0 END
  FROM json_array_elements(CAST(:batch AS json)) WITH ORDINALITY AS given(args, place)
 CROSS JOIN (SELECT {now} AS now,
                    COALESCE(CAST(:at AS bigint), {now}) + CAST(:delay AS bigint) AS wanted
             OFFSET 0) AS at
 ORDER BY given.place
RETURNING COALESCE((SELECT length(CAST(pg_notify('{schema}', '') AS text))
                      FROM {schema}replica
                     WHERE idle = 1
                       AND dead_at = 0
                     LIMIT 1), 0), id
