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
) WITH (fillfactor = 50);                 -- no index has expires: renewals stay on the page
CREATE INDEX lease_changed ON {schema}lease (changed);

-- The highest token that is known at a resource.
CREATE TABLE {schema}fence (
  scope    text   NOT NULL,
  resource text   NOT NULL,
  token    bigint NOT NULL,
  seen     bigint NOT NULL,
  PRIMARY KEY (scope, resource)
);
CREATE INDEX fence_seen ON {schema}fence (seen);

CREATE VIEW {schema}locks AS
SELECT scope AS app, name, token, owner <> '' AS held, holder, {schema}instant(acquired) AS acquired,
       {schema}instant(expires) AS expires
  FROM {schema}lease;
COMMENT ON VIEW {schema}locks IS 'Named locks; free from "expires" on, whatever "held" says.';
