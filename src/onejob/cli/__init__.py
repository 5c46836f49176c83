"""The command line. Data goes to stdout, remarks and progress to stderr.

Exit codes: 0 fine, 1 findings or refused, 2 usage, 3 store unreachable or wrong schema, 4 outcome
unknown, 5 a worker that was stopped with work left, 70 a bug of ours.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process."""
    from onejob.cli.root import root

    root(prog_name="onejob")
