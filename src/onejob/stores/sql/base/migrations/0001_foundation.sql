-- The tables of the foundation. They are private: the views at the end are what others may read.
-- Instants are integer microseconds since the epoch, UTC, by this server's clock.
-- No nullable column stands in a unique key.

-- Fencing tokens and run ids. CACHE 1: a session that hoards numbers would hand out old ones late.
CREATE SEQUENCE {schema}token AS bigint CACHE 1;
CREATE SEQUENCE {schema}run_id AS bigint CACHE 1;

CREATE TABLE {schema}replica (
  id          text    NOT NULL PRIMARY KEY,
  name        text    NOT NULL,
  host        text    NOT NULL,
  pid         bigint  NOT NULL,
  version     text    NOT NULL,
  jobs        text    NOT NULL,             -- JSON list of job names
  schedules   text    NOT NULL,             -- JSON object: schedule name -> definition hash
  started     bigint  NOT NULL,
  lease_until bigint  NOT NULL,
  idle        integer NOT NULL DEFAULT 0,
  dead_at     bigint  NOT NULL DEFAULT 0    -- 0 while live; never goes back to 0
) WITH (fillfactor = 50);                   -- renewals stay on the page

CREATE TABLE {schema}run (
  id          bigint  NOT NULL PRIMARY KEY,
  job         text    NOT NULL,
  key         text    NOT NULL,
  kind        text    NOT NULL,
  keyed       integer NOT NULL,             -- 1: (kind, job, key) stands in the ledger
  queue       text    NOT NULL,
  priority    integer NOT NULL,
  state       text    NOT NULL,
  due         bigint  NOT NULL,
  wanted      bigint  NOT NULL,
  created     bigint  NOT NULL,
  attempt     integer NOT NULL DEFAULT 0,
  deaths      integer NOT NULL DEFAULT 0,
  interrupted integer NOT NULL DEFAULT 0,
  token       bigint  NOT NULL DEFAULT 0,
  replica     text    NOT NULL DEFAULT '',
  started     bigint  NOT NULL DEFAULT 0,
  on_loss     text    NOT NULL,
  schedule    text    NOT NULL DEFAULT '',
  fire_time   bigint  NOT NULL DEFAULT 0,
  args        text    NOT NULL,
  error       text,
  progress    text
);

-- What claims read: exactly their order, and nothing that they may not take.
CREATE INDEX run_claim ON {schema}run (queue, priority, due, id)
 WHERE state = 'scheduled' AND deaths = 0;
CREATE INDEX run_alone ON {schema}run (queue, due, id)
 WHERE state = 'scheduled' AND deaths > 0;
CREATE INDEX run_replica ON {schema}run (replica)
 WHERE state = 'running';
CREATE INDEX run_parked ON {schema}run (job)
 WHERE state = 'parked';
CREATE INDEX run_schedule ON {schema}run (schedule)
 WHERE schedule <> '';

CREATE TABLE {schema}history (
  id          bigint  NOT NULL,
  token       bigint  NOT NULL,
  job         text    NOT NULL,
  key         text    NOT NULL,
  kind        text    NOT NULL,
  keyed       integer NOT NULL,
  queue       text    NOT NULL,
  priority    integer NOT NULL,
  due         bigint  NOT NULL,
  wanted      bigint  NOT NULL,
  created     bigint  NOT NULL,
  attempt     integer NOT NULL,
  deaths      integer NOT NULL,
  interrupted integer NOT NULL,
  replica     text    NOT NULL,
  started     bigint  NOT NULL,
  ended       bigint  NOT NULL,
  keep_until  bigint  NOT NULL,
  outcome     text    NOT NULL,
  on_loss     text    NOT NULL,
  schedule    text    NOT NULL,
  fire_time   bigint  NOT NULL,
  args        text    NOT NULL,
  error       text,
  result      text,
  progress    text,
  PRIMARY KEY (id, token)
);
-- Append-only and in time order, so a block range index finds what is past its time for next to nothing.
CREATE INDEX history_keep ON {schema}history USING brin (keep_until);

CREATE TABLE {schema}ledger (
  kind        text    NOT NULL,
  scope       text    NOT NULL,
  key         text    NOT NULL,
  state       text    NOT NULL,
  token       bigint  NOT NULL DEFAULT 0,
  owner       text    NOT NULL,
  run_id      bigint  NOT NULL DEFAULT 0,
  claimed     bigint  NOT NULL,
  claim_until bigint  NOT NULL DEFAULT 0,
  attempt     integer NOT NULL DEFAULT 1,
  fingerprint text    NOT NULL DEFAULT '',
  kept_until  bigint  NOT NULL DEFAULT 0,   -- 0: not ended (or a run's key, which goes with its history)
  result      text,
  error       text,
  PRIMARY KEY (kind, scope, key)
);
CREATE INDEX ledger_open ON {schema}ledger (claimed)
 WHERE kind = 'effect' AND state IN ('claimed', 'unknown');
CREATE INDEX ledger_kept ON {schema}ledger USING brin (kept_until);

CREATE TABLE {schema}schedule (
  name        text    NOT NULL PRIMARY KEY,
  job         text    NOT NULL,
  timing      text    NOT NULL,
  policy      text    NOT NULL,
  definition  text    NOT NULL,
  version     text    NOT NULL,
  superseded  text    NOT NULL,
  last        bigint  NOT NULL DEFAULT 0,
  next_fire   bigint  NOT NULL,             -- 0: never again
  paused      integer NOT NULL DEFAULT 0,
  broken      text    NOT NULL DEFAULT '',
  revision    bigint  NOT NULL DEFAULT 1,
  changed     bigint  NOT NULL
);
CREATE INDEX schedule_next ON {schema}schedule (next_fire)
 WHERE next_fire > 0 AND paused = 0 AND broken = '';

CREATE TABLE {schema}event (
  id       bigint NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  at       bigint NOT NULL,
  kind     text   NOT NULL,
  job      text   NOT NULL,
  key      text   NOT NULL,
  run_id   bigint NOT NULL DEFAULT 0,
  token    bigint NOT NULL DEFAULT 0,
  replica  text   NOT NULL DEFAULT '',
  schedule text   NOT NULL DEFAULT '',
  detail   text   NOT NULL DEFAULT ''
);
CREATE INDEX event_run ON {schema}event (run_id) WHERE run_id > 0;
CREATE INDEX event_free ON {schema}event (id) WHERE run_id = 0;
CREATE INDEX event_schedule ON {schema}event (schedule, at) WHERE schedule <> '';

-- Views: the public, stable SQL surface.
CREATE FUNCTION {schema}instant(bigint) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS 'SELECT CASE WHEN $1 = 0 THEN NULL ELSE to_timestamp($1 / 1000000.0) END';

CREATE VIEW {schema}runs AS
SELECT id, job, key, state, CAST(NULL AS text) AS outcome, attempt, deaths, interrupted, token,
       replica, queue, priority, {schema}instant(due) AS due, {schema}instant(started) AS started,
       CAST(NULL AS timestamptz) AS ended, error, progress, NULLIF(schedule, '') AS schedule,
       {schema}instant(fire_time) AS fire_time
  FROM {schema}run
 UNION ALL
SELECT id, job, key, 'ended', outcome, attempt, deaths, interrupted, token,
       replica, queue, priority, {schema}instant(due), {schema}instant(started),
       {schema}instant(ended), error, progress, NULLIF(schedule, ''), {schema}instant(fire_time)
  FROM {schema}history;
COMMENT ON VIEW {schema}runs IS 'Live and ended runs; a retried run has one row for each end.';

CREATE VIEW {schema}schedules AS
SELECT name, job, timing, {schema}instant(last) AS last_fire_time,
       {schema}instant(next_fire) AS next_fire_time, paused = 1 AS paused,
       NULLIF(broken, '') AS broken
  FROM {schema}schedule;
COMMENT ON VIEW {schema}schedules IS 'What fires when.';

CREATE VIEW {schema}replicas AS
SELECT id, name, host, pid, version, {schema}instant(started) AS started,
       {schema}instant(lease_until) AS lease_until, {schema}instant(dead_at) AS dead_at
  FROM {schema}replica;
COMMENT ON VIEW {schema}replicas IS 'The processes of the fleet, dead ones included while a run names them.';

CREATE VIEW {schema}effects AS
SELECT scope, key, state, token, owner, run_id, attempt, {schema}instant(claimed) AS claimed,
       {schema}instant(kept_until) AS kept_until, error
  FROM {schema}ledger WHERE kind = 'effect';
COMMENT ON VIEW {schema}effects IS 'What has taken effect, or may have (unknown).';

CREATE VIEW {schema}events AS
SELECT id, {schema}instant(at) AS at, kind, job, key, run_id, token, replica, schedule, detail
  FROM {schema}event;
COMMENT ON VIEW {schema}events IS 'Missed, skipped, retried, abandoned, resolved: the story behind why.';
