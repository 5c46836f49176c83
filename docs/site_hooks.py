"""Hooks of the site: documents that stand outside docs/ become pages of it.

README, ARCHITECTURE, CHANGELOG and the like are read where the code is, so they stay at the top of
the repository; the examples are shown as the code that the tests run. Links are written as they
work in the repository, and are turned here into those of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
#: Documents at the top of the repository, and where the site has them.
DOCUMENTS = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
#: The README is the repository's home page, as index.md is the site's.
HOME = "index.md"
#: The list of all decisions; in the navigation, where they stand.
_ALL = "decisions/README.md"
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".sql": "sql", ".sh": "bash", ".yaml": "yaml"}


def on_config(config: Any) -> Any:
    """Put every decision under the heading that the navigation has for them, by number."""
    decisions = ROOT / "docs" / "decisions"
    numbered = [f"decisions/{file.name}" for file in sorted(decisions.glob("0*.md"))]
    for section in config.nav:
        if isinstance(section, str):
            continue  # the home page
        for pages in section.values():
            pages.extend({"Decisions": [_ALL, *numbered]} for page in pages if page == _ALL)
            pages[:] = [page for page in pages if page != _ALL]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the documents that stand elsewhere."""
    for name, place in DOCUMENTS.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "examples.md", content=_examples()))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Turn links of the repository into links of the site, outside of code."""
    place = page.file.src_uri
    original = next((name for name, there in DOCUMENTS.items() if there == place), f"docs/{place}")
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_linked(markdown[end : fence.start()], original, place), fence[0]]
        end = fence.end()
    return "".join([*parts, _linked(markdown[end:], original, place)])


def _linked(text: str, original: str, place: str) -> str:
    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if "://" in target:
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(original), target))
        there = posixpath.relpath(_on_site(meant), posixpath.dirname(place) or ".")
        return there + (found["anchor"] or "")

    return _LINK.sub(link, text)


def _on_site(path: str) -> str:
    """Return where the site has a file of the repository."""
    if path == "README.md":
        return HOME
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if PurePosixPath(path).parts[0] == "examples":
        return "examples.md"
    if path == "docs/decisions":
        return "decisions/README.md"
    return path.removeprefix("docs/")


def _examples() -> str:
    """Return the examples as one page."""
    parts = ["# Examples", "Programs that the tests run, and kill in the middle."]
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in _LANGUAGES:
            text = path.read_text(encoding="utf-8").rstrip()
            parts += [f"## {path.name}", f"```{_LANGUAGES[path.suffix]}\n{text}\n```"]
    return "\n\n".join(parts) + "\n"
