-- The tables of examples/invoices.py.
CREATE TABLE IF NOT EXISTS customer (
  id    integer PRIMARY KEY,
  name  text    NOT NULL
);

-- One invoice for each customer and period: this is what makes a second run harmless.
CREATE TABLE IF NOT EXISTS invoice (
  id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer_id  integer NOT NULL REFERENCES customer,
  period       text    NOT NULL,
  UNIQUE (customer_id, period)
);
