"""The root command. A command's module is imported when it is called, never for ``--help``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from onejob.cli.failure import mapped
from onejob.cli.invocation import Invocation, store_options

#: Each command, with the line that ``onejob --help`` shows for it, in the order of a first day.
COMMANDS = {
    "demo": "See three replicas send one night's email: four ways, real processes.",
    "init": "Install or upgrade onejob's tables.",
    "worker": "Run a replica: schedules and jobs of MODULE:APP.",
    "once": "Run any program once over all machines: per period, or key.",
    "trigger": "Ask for one run of a job, now.",
    "runs": "List runs; retry, cancel or discard them.",
    "queues": "List queues: how much waits, and for how long.",
    "jobs": "List jobs and how many runs each has.",
    "schedules": "List schedules; pause or resume one.",
    "next": "Show when an expression fires, and what clock changes do to it.",
    "replicas": "List the processes of the fleet.",
    "locks": "List the locks that are taken; take one away.",
    "effects": "List effects whose outcome is unknown; settle one.",
    "why": "Tell the story of one run or fire time.",
    "scan": "Find every place in a repository where a job is triggered.",
    "prove": "Try to break a program: kill, freeze and double it, and count its effects.",
    "explain": "Say what a database's error means: a duplicate, or another matter.",
    "check-unique": "Count the duplicates in a table, and print the key that would keep them out.",
    "doctor": "Check store, clock, fleet and schedules.",
    "db": "Show the SQL that is sent.",
}

#: What the environment may say, with the line that ``onejob --help`` shows for it.
ENVIRONMENT = {
    "ONEJOB_APP": "MODULE:APP, whose store and schema every command uses, unless --url is given.",
    "ONEJOB_URL": "The store, where neither --url nor the App's code names one.",
    "ONEJOB_SCHEMA": "The schema, where neither --schema nor the App's code names one.",
    "ONEJOB_DISABLED": "1: this process starts nothing and fires nothing. Every command but worker "
    "sets it while it imports MODULE.",
    "ONEJOB_DEBUG": "1: an error shows its traceback.",
}


class Root(click.Group):
    """Knows the names of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"onejob.cli.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table above."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the environment may say."""
        with formatter.section("Environment"):
            formatter.write_dl(list(ENVIRONMENT.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; name those that are close to a misspelt one."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "See: onejob --help"
            ctx.fail(f"no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever it raises becomes one sentence and an exit code."""
        with mapped():
            return super().invoke(ctx)


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="onejob", message="onejob %(version)s")
@store_options
def root(invocation: Invocation) -> None:
    """Make a background job take effect once, however many replicas fire it.

    The store is --url, else that of ONEJOB_APP's App, else ONEJOB_URL, else ./onejob.db. Where your
    code names the store, say once: export ONEJOB_APP=MODULE:APP
    """
