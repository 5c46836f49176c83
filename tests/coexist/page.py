"""The code of docs/how-to/from-your-lock.md, as its readers have it after pasting it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from docs.blocks import ROOT, Block, blocks
from onejob import App

PAGE = ROOT / "docs/how-to/from-your-lock.md"
PREAMBLE = "Three releases"


def pasted(*headings: str, app: App, nightly: str = "nightly", **names: Any) -> SimpleNamespace:
    """Run the blocks of these sections, and return what they define; ``names`` stand in for theirs.

    ``nightly`` is the name of the old lock: servers are shared with other tests.
    """
    defined: dict[str, Any] = {"__name__": PAGE.stem}
    for block in blocks(PAGE):
        if block.language == "python" and _heading(block) in (PREAMBLE, *headings):
            text = block.text.replace('"nightly"', repr(nightly))
            exec(compile(text, str(PAGE), "exec", dont_inherit=True), defined)
    # The App of the page has opened nothing.
    defined |= {"app": app, **names}
    return SimpleNamespace(**defined, set=defined.update)


def _heading(block: Block) -> str:
    lines = PAGE.read_text(encoding="utf-8").splitlines()[: block.line]
    return next(m[1] for line in reversed(lines) if (m := re.match(r"## (.+)", line)))
