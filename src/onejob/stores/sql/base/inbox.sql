-- name: inbox_claim
INSERT INTO {schema}ledger (kind, scope, key, state, token, owner, claimed, claim_until, fingerprint)
VALUES ('inbox', :scope, :key, 'claimed', nextval('{schema}token'), :owner, {now},
        {now} + CAST(:claim_for AS bigint), :fingerprint)
    ON CONFLICT (kind, scope, key) DO NOTHING
RETURNING token

-- name: inbox_take_over
-- From exactly the claim that was read, once its time is over; a fresh token, drawn in SET.
UPDATE {schema}ledger
   SET token = nextval('{schema}token'),
       state = 'claimed',
       owner = :owner,
       attempt = attempt + 1,
       claim_until = {now} + CAST(:claim_for AS bigint)
 WHERE kind = 'inbox'
   AND scope = :scope
   AND key = :key
   AND token = CAST(:held AS bigint)
   AND (state = 'unknown' OR (state = 'claimed' AND claim_until <= {now}))
RETURNING token

-- name: inbox_record
-- Under the claim's own token, also after its time: it knows the truth while nobody took over.
UPDATE {schema}ledger
   SET state = :state,
       result = :result,
       error = :error,
       kept_until = CASE WHEN CAST(:state AS text) IN ('done', 'failed')
                         THEN {now} + CAST(:keep AS bigint) ELSE 0 END
 WHERE kind = 'inbox'
   AND scope = :scope
   AND key = :key
   AND token = CAST(:token AS bigint)
   AND state IN ('claimed', 'unknown', :state)
RETURNING key

-- name: inbox_give_back
DELETE FROM {schema}ledger
 WHERE kind = 'inbox'
   AND scope = :scope
   AND key = :key
   AND token = CAST(:token AS bigint)
   AND state IN ('claimed', 'unknown')
RETURNING key

-- name: inbox_read
SELECT scope, key, state, token, owner, claimed, claim_until, fingerprint, result, error, attempt,
       {now}
  FROM {schema}ledger
 WHERE kind = 'inbox'
   AND scope = :scope
   AND key = :key

-- name: inbox_unsettled
SELECT scope, key, state, token, owner, claimed, claim_until, fingerprint, result, error, attempt,
       {now}
  FROM {schema}ledger
 WHERE kind = 'inbox'
   AND scope = :scope
   AND (state = 'unknown' OR (state = 'claimed' AND claim_until <= {now}))
 ORDER BY claimed, key
 LIMIT CAST(:limit AS bigint)

-- name: inbox_begun
-- The unique key makes it one count, whoever begins beside it.
INSERT INTO {schema}ledger (kind, scope, key, state, owner, claimed, attempt, kept_until)
VALUES ('delivery', :scope, :key, 'free', '', {now}, CAST(:least AS integer),
        {now} + CAST(:keep AS bigint))
    ON CONFLICT (kind, scope, key) DO UPDATE
   SET attempt = GREATEST({schema}ledger.attempt + 1, CAST(:least AS integer)),
       kept_until = {now} + CAST(:keep AS bigint)
RETURNING attempt
