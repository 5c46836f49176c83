"""Every code block of every document does what it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celery._state
import pytest

from docs.blocks import LANGUAGES, ROOT, Block, blocks, documents
from docs.terminal import Terminal, commands, prints, terminal
from onejob import App

#: Blocks that nobody runs, each with its reason beside it. One more is a decision, not an accident.
NOT_RUN = 1

EVERY = [block for document in documents() for block in blocks(document)]
WITH_CODE = sorted({block.document for block in EVERY if block.language in ("python", "console")})


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    shell = terminal(tmp_path)
    try:
        yield shell
    finally:
        shell.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", WITH_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of_a_document_do_what_they_say(
    document: Path, shell: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.directory)
    monkeypatch.syspath_prepend(str(shell.directory))
    monkeypatch.delenv("ONEJOB_URL", raising=False)
    if "DATABASE_URL" in document.read_text():
        monkeypatch.setenv("DATABASE_URL", "sqlite:///shop.db")
        prepared("sqlite:///shop.db")
    # Celery tells every App of the process of each task: also those of the tests that come after.
    monkeypatch.setattr(celery._state, "_on_app_finalizers", set())
    known = set(sys.modules)
    names: dict[str, Any] = {"__name__": document.stem}

    try:
        for block in blocks(document):
            if not block.not_run:
                perform(block, names, shell)
    finally:
        written = {block.title.partition("/")[0].removesuffix(".py") for block in blocks(document)}
        modules = [sys.modules.pop(name) for name in set(sys.modules) - known if name in written]
        for value in [*names.values(), *(vars(module).get("app") for module in modules)]:
            if isinstance(value, App):
                value.close()


def prepared(url: str) -> None:
    """Make the tables, as the document says to do once."""
    app = App(url)
    app.store.init()  # type: ignore[attr-defined]
    app.close()


def perform(block: Block, names: dict[str, Any], shell: Terminal) -> None:
    match block.language:
        case "python" | "text" if block.title:
            file = shell.directory / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
        case "python":
            # Line numbers of the document, so that a failure points there.
            text = "\n" * block.line + block.text
            exec(compile(text, str(block.document), "exec", dont_inherit=True), names)
        case "console":
            shell.run(block.text)


def test_each_block_says_in_which_language_it_is() -> None:
    assert [block.place for block in EVERY if block.language not in LANGUAGES] == []


def test_the_blocks_that_nobody_runs_are_counted() -> None:
    assert len([block.place for block in EVERY if block.not_run]) == NOT_RUN


def test_every_link_to_a_file_of_ours_leads_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]

    assert broken == []


def test_a_console_block_is_read_as_commands_and_their_output() -> None:
    text = "$ onejob runs   # look\nID  JOB\n$ onejob trigger shop:app job --args '{\"a\": 1}'\n"

    assert list(commands(text)) == [
        (["onejob", "runs"], ["ID  JOB"]),
        (["onejob", "trigger", "shop:app", "job", "--args", '{"a": 1}'], []),
    ]


def test_what_a_command_must_print_is_looked_for_in_order() -> None:
    assert prints("a 1\nb  2\nc 3", ["a …", "c 3"])
    assert not prints("a 1\nb 2", ["b 2", "a 1"])
