-- Named locks and what they protect, as on PostgreSQL.
CREATE TABLE {schema}lease (
  scope      TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  token      INTEGER NOT NULL DEFAULT 0,
  owner      TEXT    NOT NULL DEFAULT '',
  holder     TEXT    NOT NULL DEFAULT '',
  resources  TEXT    NOT NULL DEFAULT '[]',
  acquired   INTEGER NOT NULL DEFAULT 0,
  hold_until INTEGER NOT NULL DEFAULT 0,
  expires    INTEGER NOT NULL DEFAULT 0,
  changed    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, name)
) WITHOUT ROWID;

CREATE TABLE {schema}waiter (
  scope  TEXT    NOT NULL,
  name   TEXT    NOT NULL,
  owner  TEXT    NOT NULL,
  holder TEXT    NOT NULL,
  since  INTEGER NOT NULL,
  until  INTEGER NOT NULL,
  PRIMARY KEY (scope, name, owner)
) WITHOUT ROWID;

CREATE TABLE {schema}fence (
  scope    TEXT    NOT NULL,
  resource TEXT    NOT NULL,
  token    INTEGER NOT NULL,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (scope, resource)
) WITHOUT ROWID;

CREATE VIEW {schema}locks AS
SELECT scope AS app, name, token, owner <> '' AS held, holder,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(acquired, 0) / 1e6, 'unixepoch') AS acquired,
       strftime('%Y-%m-%dT%H:%M:%fZ', nullif(expires, 0) / 1e6, 'unixepoch') AS expires,
       (SELECT count(*) FROM {schema}waiter AS w
         WHERE w.scope = l.scope AND w.name = l.name
           AND w.until / 1e6 > CAST(strftime('%s', 'now') AS INTEGER)) AS waiting
  FROM {schema}lease AS l;
