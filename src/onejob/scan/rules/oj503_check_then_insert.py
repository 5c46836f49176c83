"""OJ503 check-then-insert

What
    A look whether a row is there, and an insert when it is not, as two requests.

Why it matters
    Between the look and the insert another replica does the same. Both find nothing, both
    insert.

Example
    ::

        if not Invoice.objects.filter(customer=c, period=p).exists():
            Invoice.objects.create(customer=c, period=p)

Instead
    Let the write refuse: a unique key over (customer, period), and an insert that names it in
    ON CONFLICT. The look may stay, to save work.

When to ignore
    A unique key stands behind it, and its refusal is handled.
"""

CODE = "OJ503"
NAME = "check-then-insert"
KINDS = ("check-then-insert",)
ADVICE = (
    "Let the write refuse: a unique key, and an insert that names it in ON CONFLICT; the look "
    "saves work, it decides nothing."
)
