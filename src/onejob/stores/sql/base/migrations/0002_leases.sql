-- Named locks and what they protect. One row a name, kept while it is used: the token is drawn in
-- SET when the row changes hands, so a name's first row starts at 0, held by nobody.
CREATE TABLE {schema}lease (
  scope      text   NOT NULL,             -- the App's name
  name       text   NOT NULL,
  token      bigint NOT NULL DEFAULT 0,
  owner      text   NOT NULL DEFAULT '',  -- one acquisition, '' while nobody holds it
  holder     text   NOT NULL DEFAULT '',  -- who that is or was, for people
  resources  text   NOT NULL DEFAULT '[]',  -- JSON list: where the token was announced
  acquired   bigint NOT NULL DEFAULT 0,
  hold_until bigint NOT NULL DEFAULT 0,   -- kept until then, released or not
  expires    bigint NOT NULL DEFAULT 0,   -- free from then on
  changed    bigint NOT NULL DEFAULT 0,   -- acquired, released or broken last
  PRIMARY KEY (scope, name)
) WITH (fillfactor = 50);
-- No index on a time: what changes hands and what is renewed stays on its page (a third of the cost,
-- as measured), and the purge, once in some leases, reads the table.

-- Who waits for a lock, by their own word: only then does a release notify.
CREATE TABLE {schema}waiter (
  scope  text   NOT NULL,
  name   text   NOT NULL,
  owner  text   NOT NULL,
  holder text   NOT NULL,
  since  bigint NOT NULL,
  until  bigint NOT NULL,                 -- gone by then, one way or the other
  PRIMARY KEY (scope, name, owner)
);

-- The highest token that is known at a resource.
CREATE TABLE {schema}fence (
  scope    text   NOT NULL,
  resource text   NOT NULL,
  token    bigint NOT NULL,
  seen     bigint NOT NULL,
  PRIMARY KEY (scope, resource)
) WITH (fillfactor = 50);

CREATE VIEW {schema}locks AS
SELECT scope AS app, name, token, owner <> '' AS held, holder, {schema}instant(acquired) AS acquired,
       {schema}instant(expires) AS expires,
       (SELECT count(*) FROM {schema}waiter AS w
         WHERE w.scope = l.scope AND w.name = l.name
           AND {schema}instant(w.until) > statement_timestamp()) AS waiting
  FROM {schema}lease AS l;
COMMENT ON VIEW {schema}locks IS 'Named locks; free from "expires" on, whatever "held" says.';
