"""OJ502 conflict-without-target

What
    ``ON CONFLICT DO NOTHING`` without columns, ``INSERT IGNORE``,
    ``bulk_create(ignore_conflicts=True)``: whichever unique key objects, the row is left out in
    silence.

Why it matters
    The key that was meant is not the only one that can object. A second unique key added later
    turns lost rows into "duplicates"; ``INSERT IGNORE`` also bends values and drops broken
    references.

Example
    ::

        INSERT INTO mails (customer, period) VALUES (%s, %s) ON CONFLICT DO NOTHING

Instead
    Name the key: ``ON CONFLICT (customer, period) DO NOTHING``.

When to ignore
    The table has exactly one unique key.
"""

CODE = "OJ502"
NAME = "conflict-without-target"
KINDS = ("conflict-without-target",)
ADVICE = "Name the columns of the key that is meant: ON CONFLICT (columns) DO NOTHING."
