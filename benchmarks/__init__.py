"""What onejob costs, beside its peers and beside a plain loop, in one run: ``make bench``.

One file a benchmark (``drain``, ``pickup`` …), each with a ``BENCHMARK``. ``rounds`` runs them,
``report`` shows them, ``places`` gives each measurement a database or file of its own, and
``drivers/`` holds what runs inside each library's own environment. See docs/benchmarks.md.
"""
