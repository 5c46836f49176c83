-- The tables of the foundation, as on PostgreSQL. Instants are integer microseconds, UTC, by the
-- host's clock. SQLite has no sequences: fencing tokens and run ids come from counter rows, which
-- only ever rise, inside the same write transaction.

CREATE TABLE {schema}counter (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO {schema}counter (name, value) VALUES ('token', 0), ('run_id', 0);

CREATE TABLE {schema}replica (
  id          TEXT    NOT NULL PRIMARY KEY,
  name        TEXT    NOT NULL,
  host        TEXT    NOT NULL,
  pid         INTEGER NOT NULL,
  version     TEXT    NOT NULL,
  jobs        TEXT    NOT NULL,
  schedules   TEXT    NOT NULL,
  started     INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  idle        INTEGER NOT NULL DEFAULT 0,
  dead_at     INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE {schema}run (
  id          INTEGER NOT NULL PRIMARY KEY,
  job         TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  keyed       INTEGER NOT NULL,
  queue       TEXT    NOT NULL,
  priority    INTEGER NOT NULL,
  state       TEXT    NOT NULL,
  due         INTEGER NOT NULL,
  wanted      INTEGER NOT NULL,
  created     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL DEFAULT 0,
  deaths      INTEGER NOT NULL DEFAULT 0,
  interrupted INTEGER NOT NULL DEFAULT 0,
  token       INTEGER NOT NULL DEFAULT 0,
  replica     TEXT    NOT NULL DEFAULT '',
  started     INTEGER NOT NULL DEFAULT 0,
  on_loss     TEXT    NOT NULL,
  schedule    TEXT    NOT NULL DEFAULT '',
  fire_time   INTEGER NOT NULL DEFAULT 0,
  args        TEXT    NOT NULL,
  error       TEXT,
  progress    TEXT
);
CREATE INDEX {schema}run_claim ON {schema}run (queue, priority, due, id)
 WHERE state = 'scheduled' AND deaths = 0;
CREATE INDEX {schema}run_alone ON {schema}run (queue, due, id)
 WHERE state = 'scheduled' AND deaths > 0;
CREATE INDEX {schema}run_replica ON {schema}run (replica)
 WHERE state = 'running';
CREATE INDEX {schema}run_parked ON {schema}run (job)
 WHERE state = 'parked';
CREATE INDEX {schema}run_schedule ON {schema}run (schedule)
 WHERE schedule <> '';

CREATE TABLE {schema}history (
  id          INTEGER NOT NULL,
  token       INTEGER NOT NULL,
  job         TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  keyed       INTEGER NOT NULL,
  queue       TEXT    NOT NULL,
  priority    INTEGER NOT NULL,
  due         INTEGER NOT NULL,
  wanted      INTEGER NOT NULL,
  created     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  deaths      INTEGER NOT NULL,
  interrupted INTEGER NOT NULL,
  replica     TEXT    NOT NULL,
  started     INTEGER NOT NULL,
  ended       INTEGER NOT NULL,
  keep_until  INTEGER NOT NULL,
  outcome     TEXT    NOT NULL,
  on_loss     TEXT    NOT NULL,
  schedule    TEXT    NOT NULL,
  fire_time   INTEGER NOT NULL,
  args        TEXT    NOT NULL,
  error       TEXT,
  result      TEXT,
  progress    TEXT,
  PRIMARY KEY (id, token)
) WITHOUT ROWID;
CREATE INDEX {schema}history_keep ON {schema}history (keep_until);

CREATE TABLE {schema}ledger (
  kind        TEXT    NOT NULL,
  scope       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  state       TEXT    NOT NULL,
  token       INTEGER NOT NULL DEFAULT 0,
  owner       TEXT    NOT NULL,
  run_id      INTEGER NOT NULL DEFAULT 0,
  claimed     INTEGER NOT NULL,
  claim_until INTEGER NOT NULL DEFAULT 0,
  attempt     INTEGER NOT NULL DEFAULT 1,
  fingerprint TEXT    NOT NULL DEFAULT '',
  kept_until  INTEGER NOT NULL DEFAULT 0,
  result      TEXT,
  error       TEXT,
  PRIMARY KEY (kind, scope, key)
) WITHOUT ROWID;
CREATE INDEX {schema}ledger_open ON {schema}ledger (claimed)
 WHERE kind = 'effect' AND state IN ('claimed', 'unknown');
CREATE INDEX {schema}ledger_kept ON {schema}ledger (kept_until)
 WHERE kept_until > 0;

CREATE TABLE {schema}schedule (
  name        TEXT    NOT NULL PRIMARY KEY,
  job         TEXT    NOT NULL,
  timing      TEXT    NOT NULL,
  policy      TEXT    NOT NULL,
  definition  TEXT    NOT NULL,
  version     TEXT    NOT NULL,
  superseded  TEXT    NOT NULL,
  last        INTEGER NOT NULL DEFAULT 0,
  next_fire   INTEGER NOT NULL,
  paused      INTEGER NOT NULL DEFAULT 0,
  broken      TEXT    NOT NULL DEFAULT '',
  revision    INTEGER NOT NULL DEFAULT 1,
  changed     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX {schema}schedule_next ON {schema}schedule (next_fire)
 WHERE next_fire > 0 AND paused = 0 AND broken = '';

CREATE TABLE {schema}event (
  id       INTEGER NOT NULL PRIMARY KEY,
  at       INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  job      TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  run_id   INTEGER NOT NULL DEFAULT 0,
  token    INTEGER NOT NULL DEFAULT 0,
  replica  TEXT    NOT NULL DEFAULT '',
  schedule TEXT    NOT NULL DEFAULT '',
  detail   TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX {schema}event_run ON {schema}event (run_id) WHERE run_id > 0;
CREATE INDEX {schema}event_free ON {schema}event (id) WHERE run_id = 0;
CREATE INDEX {schema}event_schedule ON {schema}event (schedule, at) WHERE schedule <> '';

-- Views: the public SQL surface. Instants as ISO 8601 text, UTC.
CREATE VIEW {schema}runs AS
SELECT id, job, key, state, NULL AS outcome, attempt, deaths, interrupted, token, replica, queue,
       priority, strftime('%Y-%m-%dT%H:%M:%fZ', due / 1e6, 'unixepoch') AS due,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(started, 0) / 1e6, 'unixepoch') AS started,
       NULL AS ended, error, progress, nullif(schedule, '') AS schedule,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(fire_time, 0) / 1e6, 'unixepoch') AS fire_time
  FROM {schema}run
 UNION ALL
SELECT id, job, key, 'ended', outcome, attempt, deaths, interrupted, token, replica, queue,
       priority, strftime('%Y-%m-%dT%H:%M:%fZ', due / 1e6, 'unixepoch'),
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(started, 0) / 1e6, 'unixepoch'),
       strftime('%Y-%m-%dT%H:%M:%fZ', ended / 1e6, 'unixepoch'), error, progress,
       nullif(schedule, ''),
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(fire_time, 0) / 1e6, 'unixepoch')
  FROM {schema}history;

CREATE VIEW {schema}schedules AS
SELECT name, job, timing,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(last, 0) / 1e6, 'unixepoch') AS last_fire_time,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(next_fire, 0) / 1e6, 'unixepoch') AS next_fire_time,
       paused, nullif(broken, '') AS broken
  FROM {schema}schedule;

CREATE VIEW {schema}replicas AS
SELECT id, name, host, pid, version,
       strftime('%Y-%m-%dT%H:%M:%fZ', started / 1e6, 'unixepoch') AS started,
       strftime('%Y-%m-%dT%H:%M:%fZ', lease_until / 1e6, 'unixepoch') AS lease_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(dead_at, 0) / 1e6, 'unixepoch') AS dead_at
  FROM {schema}replica;

CREATE VIEW {schema}effects AS
SELECT scope, key, state, token, owner, run_id, attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', claimed / 1e6, 'unixepoch') AS claimed,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(kept_until, 0) / 1e6, 'unixepoch') AS kept_until,
       error
  FROM {schema}ledger WHERE kind = 'effect';

CREATE VIEW {schema}events AS
SELECT id, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS at, kind, job, key, run_id,
       token, replica, schedule, detail
  FROM {schema}event;
