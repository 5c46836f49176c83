"""OJ501 swallowed-violation

What
    ``except IntegrityError: pass``: every broken constraint is taken for "was there already".

Why it matters
    An IntegrityError is also a missing foreign key, a NULL, a failed check. The row is not
    there, and the job goes on as if it were.

Example
    ::

        try:
            session.commit()
        except IntegrityError:
            pass

Instead
    Insert with ``ON CONFLICT (the, key) DO NOTHING`` and look at the count; or ask which
    constraint it was (``error.orig.diag.constraint_name`` with psycopg under SQLAlchemy), and
    raise the rest. ``app.first(scope, key, within=connection)`` of onejob answers whether it
    was there already, without an error.

When to ignore
    The table has one constraint, and always will.
"""

CODE = "OJ501"
NAME = "swallowed-violation"
KINDS = ("swallowed-violation",)
ADVICE = (
    "Name the constraint: ON CONFLICT (columns) DO NOTHING, and look at the count; raise "
    "whatever else is refused."
)
