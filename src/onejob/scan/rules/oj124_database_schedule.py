"""OJ124 database-schedule

What
    A schedule inside a database: pg_cron, a MySQL event, a task of a warehouse, a job of Oracle.

Why it matters
    The database that has it runs it, and so does the copy: a restored dump, a staging database, a
    promoted replica with its event scheduler on. A long statement may still run when the next fire
    time comes; whether the two overlap differs from product to product.

Example
    ::

        CREATE EVENT bill ON SCHEDULE EVERY 1 DAY DO CALL bill();

Instead
    Create it by name, once, in a migration; begin the procedure by inserting a row with a
    unique key of (job, period), and end it if the row was there. Keep tokens out of the
    statement: everybody who may read the catalogue reads them. Or call it from outside the
    database, on any number of machines: ``onejob once NAME --per day -- psql -c "CALL
    bill()"``.

When to ignore
    The statement gives the same result however often it runs.
"""

CODE = "OJ124"
NAME = "database-schedule"
KINDS = ("pg-cron", "mysql-event", "database-job")
ADVICE = (
    "Begin the procedure by inserting a row with a unique key of (job, period), and end it if "
    "the row was there. Or call it from outside: onejob once NAME --per day -- CMD. Without "
    "onejob: the row is enough."
)
