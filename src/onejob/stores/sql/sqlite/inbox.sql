-- name: inbox_claim
-- why: tokens from the counter row
-- answer
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, claimed, claim_until, fingerprint)
SELECT 'inbox', :scope, :key, 'claimed', value + 1, :owner, {now}, {now} + :claim_for, :fingerprint
  FROM {schema}counter
 WHERE name = 'token'
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: inbox_take_over
-- why: tokens from the counter row
-- answer
UPDATE {schema}ledger
   SET token = (SELECT value FROM {schema}counter WHERE name = 'token') + 1,
       state = 'claimed',
       owner = :owner,
       attempt = attempt + 1,
       claim_until = {now} + :claim_for
 WHERE kind = 'inbox'
   AND scope = :scope
   AND key = :key
   AND token = :held
   AND (state = 'unknown' OR (state = 'claimed' AND claim_until <= {now}))
RETURNING token
-- then
UPDATE {schema}counter
   SET value = value + changes()
 WHERE name = 'token'
   AND changes() > 0

-- name: inbox_begun
-- why: max() for GREATEST, and the table's own name inside the prefix
INSERT INTO {schema}ledger (kind, scope, key, state, owner, claimed, attempt, kept_until)
VALUES ('delivery', :scope, :key, 'free', '', {now}, :least, {now} + :keep)
    ON CONFLICT (kind, scope, key) DO UPDATE
   SET attempt = max(attempt + 1, :least),
       kept_until = {now} + :keep
RETURNING attempt
