"""The site: it builds without a warning, asks no other host for anything, leads nowhere dead."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.blocks import ROOT

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What one page has of anchors, of links, and of what a browser fetches by itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and (href := given.get("href")):
            self.links.append(href)
        if tag in ("script", "img", "iframe") and (source := given.get("src")):
            self.fetched.append(source)
        if tag == "link" and given.get("rel") != "canonical" and (href := given.get("href")):
            self.fetched.append(href)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as ``make docs`` builds it: a warning is an error."""
    place = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", place],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return place


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_document_is_a_page(pages: dict[Path, Page]) -> None:
    documents = list((ROOT / "docs").rglob("*.md"))

    assert len(pages) > len(documents) > 30


def test_no_link_is_dead(site: Path, pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # served at any address, so its links begin at the root
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("mailto:"):
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[there].anchors | {""} if there in pages else set()
            if unquote(parts.fragment) not in anchors:
                dead.append((path.relative_to(site), link))
    assert dead == []


def test_nothing_is_fetched_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    elsewhere = [
        (path.relative_to(site), source)
        for path, page in pages.items()
        for source in page.fetched
        if urlsplit(source).netloc
    ]
    styles = [
        (path.relative_to(site), address)
        for path in site.rglob("*.css")
        for address in re.findall(r"url\(([^)]*)\)", path.read_text(encoding="utf-8"))
        if "//" in address.partition(":")[0] or address.strip("\"'").startswith("http")
    ]

    assert (elsewhere, styles) == ([], [])


def test_the_search_has_its_index_beside_it(site: Path) -> None:
    """It needs no service: whoever serves the folder, without a network, can search it."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))

    found = {
        entry["location"].partition("#")[0] for entry in index["docs"] if "23505" in entry["text"]
    }
    assert "how-to/troubleshooting.html" in found
