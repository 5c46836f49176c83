-- Schedules that are put into the store as data, overlaps that wait or cancel, runs that are late.
-- Expand only: a release that does not know these columns keeps running.

-- dynamic 1: put as data; any replica that knows its job fires it. The columns after it are what its
-- runs are made of. missed counts fire times, lateness is how late the newest one was ticked.
ALTER TABLE {schema}schedule
  ADD COLUMN dynamic  integer NOT NULL DEFAULT 0,
  ADD COLUMN args     text    NOT NULL DEFAULT '{}',
  ADD COLUMN queue    text    NOT NULL DEFAULT 'default',
  ADD COLUMN priority integer NOT NULL DEFAULT 0,
  ADD COLUMN on_loss  text    NOT NULL DEFAULT 'retry',
  ADD COLUMN missed   bigint  NOT NULL DEFAULT 0,
  ADD COLUMN lateness bigint  NOT NULL DEFAULT 0;

-- What is due among any number of them, job by job. One over all of them would be taken where it
-- walks past what nobody here fires: declared ones are looked for by name.
DROP INDEX {schema}schedule_next;
CREATE INDEX schedule_dynamic ON {schema}schedule (job, next_fire, name)
 WHERE dynamic = 1 AND next_fire > 0 AND paused = 0 AND broken = '';

-- ticks: JSON list of the jobs whose dynamic schedules this replica fires.
ALTER TABLE {schema}replica ADD COLUMN ticks text NOT NULL DEFAULT '[]';

-- behind: the run that was in the way (overlap), while this one waits.
-- expect_by: when it should have ended; negative once it was told that it has not.
ALTER TABLE {schema}run
  ADD COLUMN behind    bigint NOT NULL DEFAULT 0,
  ADD COLUMN expect_by bigint NOT NULL DEFAULT 0;
CREATE INDEX run_behind ON {schema}run (schedule, id)
 WHERE state = 'waiting' AND behind > 0;
CREATE INDEX run_expect ON {schema}run (expect_by)
 WHERE expect_by <> 0;

-- Requests to cancel a run whose row somebody had locked: nobody waits for that lock.
CREATE TABLE {schema}cancel (
  run_id bigint NOT NULL PRIMARY KEY,
  asked  bigint NOT NULL,
  why    text   NOT NULL
);

CREATE OR REPLACE VIEW {schema}schedules AS
SELECT name, job, timing, {schema}instant(last) AS last_fire_time,
       {schema}instant(next_fire) AS next_fire_time, paused = 1 AS paused,
       NULLIF(broken, '') AS broken, dynamic = 1 AS dynamic, missed
  FROM {schema}schedule;
