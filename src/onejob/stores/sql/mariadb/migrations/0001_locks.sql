-- Locks, fences, claims of periods and ticks, and what is told of them. Every statement can be
-- repeated: a change of tables commits by itself here, so one that failed half way is run again.
-- What names something is binary: told apart byte by byte, whatever charset or collation a
-- connection or a database has. Instants are integer microseconds since the epoch, UTC, by this
-- server's clock.

CREATE TABLE IF NOT EXISTS {schema}lease (
  scope      varbinary(1024) NOT NULL,              -- the App's name
  name       varbinary(1024) NOT NULL,
  token      bigint          NOT NULL DEFAULT 0,
  owner      varbinary(255)  NOT NULL DEFAULT '',   -- one acquisition, '' while nobody holds it
  holder     text            NOT NULL,              -- who that is or was, for people
  resources  mediumtext      NOT NULL,              -- JSON list: where the token was announced
  acquired   bigint          NOT NULL DEFAULT 0,
  hold_until bigint          NOT NULL DEFAULT 0,    -- kept until then, released or not
  expires    bigint          NOT NULL DEFAULT 0,    -- free from then on
  changed    bigint          NOT NULL DEFAULT 0,    -- acquired, released or broken last
  PRIMARY KEY (scope, name),
  KEY {schema}lease_changed (changed)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- In whose hands a lock is: what a fenced transaction locks to its end, and whoever takes the lock
-- over must lock too. Renewals and releases do not touch it, so they go on meanwhile.
CREATE TABLE IF NOT EXISTS {schema}lease_hand (
  scope varbinary(1024) NOT NULL,
  name  varbinary(1024) NOT NULL,
  token bigint          NOT NULL DEFAULT 0,
  owner varbinary(255)  NOT NULL DEFAULT '',
  PRIMARY KEY (scope, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Who waits for a lock, by their own word.
CREATE TABLE IF NOT EXISTS {schema}waiter (
  scope  varbinary(1024) NOT NULL,
  name   varbinary(1024) NOT NULL,
  owner  varbinary(255)  NOT NULL,
  holder text            NOT NULL,
  since  bigint          NOT NULL,
  until  bigint          NOT NULL,                  -- gone by then, one way or the other
  PRIMARY KEY (scope, name, owner),
  KEY {schema}waiter_until (until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The highest token that is known at a resource.
CREATE TABLE IF NOT EXISTS {schema}fence (
  scope    varbinary(1024) NOT NULL,
  resource varbinary(1024) NOT NULL,
  token    bigint          NOT NULL,
  seen     bigint          NOT NULL,
  PRIMARY KEY (scope, resource),
  KEY {schema}fence_seen (seen)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {schema}ledger (
  kind        varbinary(32)   NOT NULL,
  scope       varbinary(1024) NOT NULL,
  `key`       varbinary(1024) NOT NULL,
  state       varbinary(32)   NOT NULL,
  token       bigint          NOT NULL DEFAULT 0,
  owner       varbinary(1024) NOT NULL DEFAULT '',
  claimed     bigint          NOT NULL,
  claim_until bigint          NOT NULL DEFAULT 0,
  attempt     integer         NOT NULL DEFAULT 0,
  kept_until  bigint          NOT NULL DEFAULT 0,
  error       mediumtext,
  PRIMARY KEY (kind, scope, `key`),
  KEY {schema}ledger_kept (kept_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {schema}event (
  id       bigint          NOT NULL PRIMARY KEY AUTO_INCREMENT,
  at       bigint          NOT NULL,
  kind     varbinary(64)   NOT NULL,
  job      varbinary(1024) NOT NULL DEFAULT '',
  `key`    varbinary(1024) NOT NULL DEFAULT '',
  token    bigint          NOT NULL DEFAULT 0,
  replica  text            NOT NULL,
  schedule varbinary(1024) NOT NULL DEFAULT '',
  detail   mediumtext      NOT NULL,
  KEY {schema}event_at (at),
  KEY {schema}event_schedule (schedule, at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Views: the public, stable SQL surface. Instants are UTC, whatever time zone a session has.
CREATE OR REPLACE VIEW {schema}locks AS
SELECT CONVERT(scope USING utf8mb4) AS app, CONVERT(name USING utf8mb4) AS name, token,
       owner <> '' AS held, holder,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL NULLIF(acquired, 0) MICROSECOND AS acquired,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL NULLIF(expires, 0) MICROSECOND AS expires,
       (SELECT COUNT(*)
          FROM {schema}waiter AS w
         WHERE w.scope = l.scope
           AND w.name = l.name
           AND w.until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00',
                                       UTC_TIMESTAMP(6))) AS waiting
  FROM {schema}lease AS l;

CREATE OR REPLACE VIEW {schema}events AS
SELECT id, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL at MICROSECOND AS at,
       CONVERT(kind USING utf8mb4) AS kind, CONVERT(job USING utf8mb4) AS job,
       CONVERT(`key` USING utf8mb4) AS `key`, token, replica,
       CONVERT(schedule USING utf8mb4) AS schedule, detail
  FROM {schema}event;
