-- name: run_enqueue
-- why: no data-modifying CTEs and no sequences; inside one write transaction the steps are one.
INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, fingerprint)
SELECT json_extract(value, '$.kind'), json_extract(value, '$.job'), json_extract(value, '$.key'),
       'claimed', '',
       (SELECT value FROM {schema}counter WHERE name = 'run_id') + json_extract(value, '$.place') + 1,
       {now}, json_extract(value, '$.fingerprint')
  FROM json_each(:batch)
 WHERE json_extract(value, '$.keyed') = 1
    ON CONFLICT (kind, scope, key) DO NOTHING
-- then
-- answer
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT (SELECT value FROM {schema}counter WHERE name = 'run_id') + json_extract(b.value, '$.place') + 1,
       json_extract(b.value, '$.job'), json_extract(b.value, '$.key'),
       json_extract(b.value, '$.kind'), json_extract(b.value, '$.keyed'),
       json_extract(b.value, '$.queue'), json_extract(b.value, '$.priority'), 'scheduled',
       max(COALESCE(json_extract(b.value, '$.at'), {now}) + json_extract(b.value, '$.delay'), {now}),
       COALESCE(json_extract(b.value, '$.at'), {now}) + json_extract(b.value, '$.delay'), {now},
       json_extract(b.value, '$.on_loss'), json_extract(b.value, '$.args'),
       CASE WHEN json_extract(b.value, '$.expect') > 0
            THEN COALESCE(json_extract(b.value, '$.at'), {now}) + json_extract(b.value, '$.delay')
               + json_extract(b.value, '$.expect')
            ELSE 0 END
  FROM json_each(:batch) AS b
 WHERE json_extract(b.value, '$.keyed') = 0
    OR EXISTS (SELECT 1
                 FROM {schema}ledger AS l
                WHERE l.kind = json_extract(b.value, '$.kind')
                  AND l.scope = json_extract(b.value, '$.job')
                  AND l.key = json_extract(b.value, '$.key')
                  AND l.run_id = (SELECT value FROM {schema}counter WHERE name = 'run_id')
                               + json_extract(b.value, '$.place') + 1)
RETURNING id - (SELECT value FROM {schema}counter WHERE name = 'run_id') - 1, id
-- then
UPDATE {schema}counter
   SET value = value + json_array_length(:batch)
 WHERE name = 'run_id'

-- name: run_enqueue_alike
-- why: no sequences; inside one write transaction the steps are one.
-- answer
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT counted.value + given.key + 1, :job, printf('%s%08x', :stem, given.key), :kind, 0, :queue,
       :priority, 'scheduled', max(COALESCE(:at, {now}) + :delay, {now}),
       COALESCE(:at, {now}) + :delay, {now}, :on_loss, given.value,
       CASE WHEN :expect > 0 THEN COALESCE(:at, {now}) + :delay + :expect ELSE 0 END
  FROM {schema}counter AS counted
 CROSS JOIN json_each(:batch) AS given
 WHERE counted.name = 'run_id'
RETURNING 0, id
-- then
UPDATE {schema}counter
   SET value = value + json_array_length(:batch)
 WHERE name = 'run_id'

-- name: run_enqueue_one
-- why: no sequences; inside one write transaction the steps are one.
UPDATE {schema}counter
   SET value = value + 1
 WHERE name = 'run_id'
-- then
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT value, :job, :key, :kind, 0, :queue, :priority, 'scheduled',
       max(COALESCE(:at, {now}) + :delay, {now}), COALESCE(:at, {now}) + :delay, {now}, :on_loss,
       :args, CASE WHEN :expect > 0 THEN COALESCE(:at, {now}) + :delay + :expect ELSE 0 END
  FROM {schema}counter
 WHERE name = 'run_id'
RETURNING 0, id

-- name: run_enqueue_keyed
-- why: no data-modifying CTEs and no sequences; inside one write transaction the steps are one.
UPDATE {schema}counter
   SET value = value + 1
 WHERE name = 'run_id'
-- then
INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, fingerprint)
SELECT :kind, :job, :key, 'claimed', '', value, {now}, :fingerprint
  FROM {schema}counter
 WHERE name = 'run_id'
    ON CONFLICT (kind, scope, key) DO NOTHING
-- then
INSERT INTO {schema}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                         on_loss, args, expect_by)
SELECT l.run_id, :job, :key, :kind, 1, :queue, :priority, 'scheduled',
       max(COALESCE(:at, {now}) + :delay, {now}), COALESCE(:at, {now}) + :delay, {now}, :on_loss,
       :args, CASE WHEN :expect > 0 THEN COALESCE(:at, {now}) + :delay + :expect ELSE 0 END
  FROM {schema}ledger AS l
  JOIN {schema}counter AS counted
    ON counted.name = 'run_id'
   AND counted.value = l.run_id
 WHERE l.kind = :kind
   AND l.scope = :job
   AND l.key = :key
RETURNING 0, id
