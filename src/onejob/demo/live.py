"""Progress while the acts are played: a live table on a terminal, else one line for each act."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onejob.demo.captions import caption
from onejob.demo.result import Result, counted
from onejob.demo.stage import Stage
from onejob.demo.table import figures

REFRESHES_PER_SECOND = 8


class Live:
    """A context manager around the play. Everything here goes to stderr."""

    def __init__(self, stream: IO[str]) -> None:
        self._over: list[Result] = []
        self._stage: Stage | None = None
        self._console = Console(file=stream, highlight=False)
        self._live = RichLive(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def began(self, act: str, stage: Stage) -> None:
        """An act begins."""
        self._stage = stage

    def ended(self, result: Result) -> None:
        """An act is over."""
        self._stage = None
        self._over.append(result)
        if not self._console.is_terminal:
            self._console.print(
                f"{result.name}: {result.emails} emails, {result.duplicates} duplicates, "
                f"{result.missing} missing"
            )

    def _drawn(self) -> RenderableType:
        shown: list[RenderableType] = [figures(self._over)] if self._over else []
        stage = self._stage
        if stage is not None:
            about = caption(stage.act, faults=stage.faults)
            shown += [Text(f"{stage.act}: {about.short}", style="bold"), _progress(stage)]
        return Group(*shown)


def _progress(stage: Stage) -> Table:
    emails, duplicates, missing = counted(stage.provider.delivered(), stage.customers)
    reached = stage.customers - missing
    line = Table.grid(padding=(0, 1))
    line.add_row(
        ProgressBar(total=stage.customers, completed=reached, width=30),
        f"{emails} emails to {reached} of {stage.customers} customers",
        Text(f"{duplicates} duplicates", style="red" if duplicates else "green"),
        _faults(stage),
    )
    return line


def _faults(stage: Stage) -> str:
    said: Sequence[str] = [
        f"{replica.name} {_DONE[replica.marks[-1].what]}"
        for replica in stage.fleet.replicas
        if replica.marks and replica.marks[-1].what in _DONE
    ]
    return ", ".join(said)


_DONE = {"kill": "killed", "freeze": "frozen", "thaw": "thawed"}
