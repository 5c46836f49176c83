-- Schedules as data, overlaps that wait or cancel, runs that are late: as on PostgreSQL.

ALTER TABLE {schema}schedule ADD COLUMN dynamic  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {schema}schedule ADD COLUMN args     TEXT    NOT NULL DEFAULT '{}';
ALTER TABLE {schema}schedule ADD COLUMN queue    TEXT    NOT NULL DEFAULT 'default';
ALTER TABLE {schema}schedule ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {schema}schedule ADD COLUMN on_loss  TEXT    NOT NULL DEFAULT 'retry';
ALTER TABLE {schema}schedule ADD COLUMN missed   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {schema}schedule ADD COLUMN lateness INTEGER NOT NULL DEFAULT 0;
DROP INDEX {schema}schedule_next;
CREATE INDEX {schema}schedule_dynamic ON {schema}schedule (job, next_fire, name)
 WHERE dynamic = 1 AND next_fire > 0 AND paused = 0 AND broken = '';

ALTER TABLE {schema}replica ADD COLUMN ticks TEXT NOT NULL DEFAULT '[]';

ALTER TABLE {schema}run ADD COLUMN behind    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {schema}run ADD COLUMN expect_by INTEGER NOT NULL DEFAULT 0;
CREATE INDEX {schema}run_behind ON {schema}run (schedule, id)
 WHERE state = 'waiting' AND behind > 0;
CREATE INDEX {schema}run_expect ON {schema}run (expect_by)
 WHERE expect_by <> 0;

CREATE TABLE {schema}cancel (
  run_id INTEGER NOT NULL PRIMARY KEY,
  asked  INTEGER NOT NULL,
  why    TEXT    NOT NULL
);
