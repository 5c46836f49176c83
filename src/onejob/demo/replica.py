"""One replica: the process in which an act's application runs. Started by ``processes.py``."""

from __future__ import annotations

import json
import sys

from onejob.demo.acts import application
from onejob.demo.part import Part


def main() -> None:
    """Load the act's application, say so, wait for the word, run it."""
    part = Part(**json.loads(sys.argv[1]))
    run = application(part.act)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = sys.stdin.readline()
    if line:
        run(part, **json.loads(line))


if __name__ == "__main__":
    main()
