-- name: ledger_first_many
-- why: json_each; WHERE true keeps ON CONFLICT from reading as a join
INSERT INTO {schema}ledger (kind, scope, key, state, owner, claimed, kept_until)
SELECT :kind, :scope, value, 'done', :owner, {now}, {now} + :keep
  FROM json_each(:keys)
 WHERE true
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key

-- name: ledger_first_in_run
-- why: the write lock stands for the row lock; WHERE true keeps ON CONFLICT from reading as a join
INSERT INTO {schema}ledger (kind, scope, key, state, owner, run_id, claimed, kept_until)
SELECT 'effect', :scope, :key, 'done', :replica, id, {now}, {now} + :keep
  FROM {schema}run
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING key

-- name: effect_claim
-- why: tokens from the counter row
-- answer
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, claimed, claim_until, fingerprint)
SELECT 'effect', :scope, :key, 'claimed', value + 1, :owner, {now},
       CASE WHEN :claim_for = 0 THEN 0 ELSE {now} + :claim_for END, :fingerprint
  FROM {schema}counter
 WHERE name = 'token'
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: effect_claim_in_run
-- why: tokens from the counter row; the write lock stands for the row lock
-- answer
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, run_id, claimed, fingerprint)
SELECT 'effect', :scope, :key, 'claimed',
       (SELECT value FROM {schema}counter WHERE name = 'token') + 1, :owner, id, {now}, :fingerprint
  FROM {schema}run
 WHERE id = :id
   AND token = :token
   AND replica = :replica
   AND state = 'running'
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: effect_claim_many_in_run
-- why: tokens from the counter row; the write lock stands for the row lock. A key that is there
-- already is left out before tokens are counted, so that they follow each other
-- answer
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, run_id, claimed, fingerprint)
SELECT 'effect', :scope, given.value ->> 'key', 'claimed',
       (SELECT value FROM {schema}counter WHERE name = 'token')
         + row_number() OVER (ORDER BY given.value ->> 'key'),
       :owner, r.id, {now}, given.value ->> 'fingerprint'
  FROM json_each(:entries) AS given
  JOIN {schema}run AS r
    ON r.id = :id
   AND r.token = :token
   AND r.replica = :replica
   AND r.state = 'running'
 WHERE NOT EXISTS (SELECT 1 FROM {schema}ledger
                    WHERE kind = 'effect' AND scope = :scope AND key = given.value ->> 'key')
RETURNING key, token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: effect_reclaim
-- why: tokens from the counter row
-- answer
UPDATE {schema}ledger
   SET token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       state = 'claimed',
       owner = :owner,
       run_id = CASE WHEN :id > 0 THEN :id ELSE run_id END,
       attempt = attempt + 1,
       claim_until = CASE WHEN :claim_for = 0 THEN 0 ELSE {now} + :claim_for END
 WHERE kind = 'effect'
   AND scope = :scope
   AND key = :key
   AND token = :held
   AND state IN ('claimed', 'unknown')
   AND (:id = 0 OR EXISTS (SELECT 1 FROM {schema}run
                            WHERE id = :id AND token = :token AND replica = :replica
                              AND state = 'running'))
RETURNING token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: effect_record
-- why: no data-modifying CTEs
-- answer
UPDATE {schema}ledger
   SET state = :state,
       result = :result,
       error = :error,
       kept_until = CASE WHEN :state IN ('done', 'failed') THEN {now} + :keep ELSE 0 END
 WHERE kind = 'effect'
   AND scope = :scope
   AND key = :key
   AND token = :token
RETURNING key
-- then
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now})
 WHERE :state IN ('done', 'failed')
   AND state = 'unknown'
   AND NOT (on_loss = 'unknown' AND deaths > 0)
   AND id = (SELECT run_id FROM {schema}ledger
              WHERE kind = 'effect' AND scope = :scope AND key = :key AND token = :token
                AND run_id > 0)

-- name: effect_record_many
-- why: no data-modifying CTEs. As an upsert, in which CROSS JOIN keeps the order of the loops: one
-- descent of the index for each entry given, where an UPDATE would walk through all of its scope
-- answer
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, claimed, result, error,
                            kept_until)
SELECT l.kind, l.scope, l.key, given.value ->> 'state', l.token, l.owner, l.claimed,
       given.value ->> 'result', given.value ->> 'error',
       CASE WHEN given.value ->> 'state' IN ('done', 'failed') THEN {now} + :keep ELSE 0 END
  FROM json_each(:entries) AS given
 CROSS JOIN {schema}ledger AS l
    ON l.kind = 'effect'
   AND l.scope = :scope
   AND l.key = given.value ->> 'key'
   AND l.token = given.value ->> 'token'
 WHERE true
    ON CONFLICT (kind, scope, key) DO UPDATE
   SET state = excluded.state,
       result = excluded.result,
       error = excluded.error,
       kept_until = excluded.kept_until
RETURNING key
-- then
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now})
 WHERE state = 'unknown'
   AND NOT (on_loss = 'unknown' AND deaths > 0)
   AND id IN (SELECT l.run_id
                FROM json_each(:entries) AS given
               CROSS JOIN {schema}ledger AS l
                  ON l.kind = 'effect'
                 AND l.scope = :scope
                 AND l.key = given.value ->> 'key'
                 AND l.token = given.value ->> 'token'
               WHERE given.value ->> 'state' IN ('done', 'failed')
                 AND l.run_id > 0)

-- name: effect_release
-- why: no data-modifying CTEs; the run is woken first, while the entry still names it
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now})
 WHERE state = 'unknown'
   AND NOT (on_loss = 'unknown' AND deaths > 0)
   AND id = (SELECT run_id FROM {schema}ledger
              WHERE kind = 'effect' AND scope = :scope AND key = :key AND token = :token
                AND run_id > 0 AND state IN ('claimed', 'unknown'))
-- then
-- answer
DELETE FROM {schema}ledger
 WHERE kind = 'effect'
   AND scope = :scope
   AND key = :key
   AND token = :token
   AND state IN ('claimed', 'unknown')
RETURNING key

-- name: effect_release_many
-- why: no data-modifying CTEs; runs are woken first, while the entries still name them
UPDATE {schema}run
   SET state = 'scheduled',
       due = max(due, {now})
 WHERE state = 'unknown'
   AND NOT (on_loss = 'unknown' AND deaths > 0)
   AND id IN (SELECT l.run_id
                FROM json_each(:entries) AS given
               CROSS JOIN {schema}ledger AS l
                  ON l.kind = 'effect'
                 AND l.scope = :scope
                 AND l.key = given.value ->> 'key'
                 AND l.token = given.value ->> 'token'
               WHERE l.state IN ('claimed', 'unknown')
                 AND l.run_id > 0)
-- then
-- answer
DELETE FROM {schema}ledger
 WHERE kind = 'effect'
   AND scope = :scope
   AND state IN ('claimed', 'unknown')
   AND key IN (SELECT value ->> 'key' FROM json_each(:entries))
   AND (key, token) IN (SELECT value ->> 'key', value ->> 'token' FROM json_each(:entries))
RETURNING key

-- name: effect_read
-- why: json_each
SELECT scope, key, state, token, owner, run_id, claimed, claim_until, fingerprint, result, error,
       attempt, {now}
  FROM {schema}ledger
 WHERE kind = 'effect'
   AND scope = :scope
   AND key IN (SELECT value FROM json_each(:keys))

-- name: ledger_purge
-- why: no row locks
DELETE FROM {schema}ledger
 WHERE (kind, scope, key) IN (SELECT kind, scope, key
                                FROM {schema}ledger
                               WHERE kept_until > 0
                                 AND kept_until < {now}
                                 AND (state IN ('done', 'failed', 'free')
                                      OR claim_until BETWEEN 1 AND {now})
                                 AND NOT EXISTS (SELECT 1 FROM {schema}run WHERE id = run_id)
                               ORDER BY kind, scope, key
                               LIMIT :limit)
RETURNING key
