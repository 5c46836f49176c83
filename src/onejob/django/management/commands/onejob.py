"""``manage.py onejob COMMAND``: onejob's own commands, over the project's App."""

from __future__ import annotations

import argparse
import os
from typing import Any

from django.core.management.base import BaseCommand

#: Options of every Django command, which Django has read already.
_DJANGOS = ("--settings", "--pythonpath")


class Command(BaseCommand):
    """Hand the arguments to onejob's command line."""

    help = "onejob's commands over this project's App: manage.py onejob --help lists them"

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a program: options and exit codes are onejob's."""
        _run(_without_djangos(argv[2:]), prog=f"{os.path.basename(argv[0])} {argv[1]}")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take everything, for ``call_command("onejob", "runs", "--json")``."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run from within a program; a failure is a SystemExit with onejob's exit code."""
        _run([*args, *options["arguments"]], prog="manage.py onejob")


def _run(arguments: list[str], *, prog: str) -> None:
    from onejob.django.commands import SPEC, root

    before = os.environ.get("ONEJOB_APP")
    os.environ["ONEJOB_APP"] = SPEC
    try:
        root.main(arguments, prog_name=prog)
    finally:
        if before is None:
            del os.environ["ONEJOB_APP"]
        else:
            os.environ["ONEJOB_APP"] = before


def _without_djangos(arguments: list[str]) -> list[str]:
    left: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in _DJANGOS:
            skip = True
        elif not argument.startswith(tuple(f"{name}=" for name in _DJANGOS)):
            left.append(argument)
    return left
