-- The shop's own tables, beside onejob's. Nothing here prevents a second row for one fire time,
-- or a second confirmation: that is onejob's part.
CREATE TABLE orders (
  number    bigint  NOT NULL PRIMARY KEY,
  confirmed integer NOT NULL DEFAULT 0
);
CREATE TABLE report (
  fire_time timestamptz NOT NULL,
  orders    bigint      NOT NULL
);
