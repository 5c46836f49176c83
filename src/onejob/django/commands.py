"""onejob's command line, where the App is known: no command asks for MODULE:APP."""

from __future__ import annotations

import click

from onejob.cli.invocation import store_options
from onejob.cli.root import ENVIRONMENT, Root

#: Where the command line finds the project's App.
SPEC = "onejob.django:app"

_METAVAR = "MODULE:APP"


class ProjectRoot(Root):
    """Fills in the App for the commands that want one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and put the App first among its arguments where it takes one."""
        name, command, rest = super().resolve_command(ctx, args)
        takes = command is not None and any(
            isinstance(one, click.Argument) and one.metavar == _METAVAR for one in command.params
        )
        if takes and "--help" not in rest and "-h" not in rest and SPEC not in rest:
            rest = [SPEC, *rest]
        return name, command, rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the environment may say here: the settings say the rest."""
        shown = [(n, t) for n, t in ENVIRONMENT.items() if n in ("ONEJOB_DISABLED", "ONEJOB_DEBUG")]
        with formatter.section("Environment"):
            formatter.write_dl(shown)


@click.group(cls=ProjectRoot, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="onejob", message="onejob %(version)s")
@store_options
def root(invocation: object) -> None:
    """Make a background job take effect once: the jobs of this Django project.

    The store is the one that ONEJOB in the settings names. Tables are made by manage.py migrate.
    """
