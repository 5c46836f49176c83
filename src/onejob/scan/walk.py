"""Which files of a tree are worth reading: no build output, no dependencies, no tests, no docs.

Tests, fixtures and documents show what a job may look like; they don't start one in production.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from onejob.scan.facts import Note
from onejob.scan.ignore import Ignores
from onejob.scan.reading import decoded

DEPTH_MAX = 60
FILES_MAX = 500_000
_IGNORE_BYTES_MAX = 200_000

#: Directories whose content was written elsewhere, or by a program.
_FOREIGN_WORDS = """
    .git .hg .svn .bzr .venv venv .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache
    __pycache__ site-packages node_modules bower_components jspm_packages vendor third_party
    third-party thirdparty vendored external_libs .next .nuxt .output .svelte-kit .angular .yarn
    .pnpm-store .gradle .m2 .terraform .terragrunt-cache .serverless .cache .idea .vscode .vs
    .agents .claude .cursor .codex .gemini .windsurf .aider .ipynb_checkpoints htmlcov coverage
    .nyc_output storybook-static .dart_tool .bundle pods carthage deriveddata locales i18n
    translations
"""
FOREIGN = frozenset(_FOREIGN_WORDS.split())
#: Directories that hold what a build made, unless a manifest lives there under another name.
BUILT = frozenset(("dist", "target", "obj", "_build", "wwwroot", "public", "static", "assets"))
#: Directories of tests and of what tests read.
_TESTS_WORDS = """
    test tests testing __tests__ __mocks__ __fixtures__ spec specs e2e e2e-tests testdata
    test-data test_data fixtures cypress playwright integration-tests integration_tests
    integrationtest integrationtests unit-tests unit_tests unittests test-utils test_utils
    testlib testutil testutils mocks benches snapshots cassettes androidtest
"""
TESTS = frozenset(_TESTS_WORDS.split())
#: Directories of documents.
_DOCS_WORDS = """
    docs doc documentation docs-site changelogs
"""
DOCS = frozenset(_DOCS_WORDS.split())
_TEST_FILE = re.compile(
    r"test_.*\.py|.*_tests?\.(py|go|rb|exs|dart|cc|cpp)|conftest\.py|.*_spec\.rb"
    r"|.*[.-](test|tests|spec|e2e|e2e-spec|cy|stories|mock)\.[cm]?[jt]sx?"
    r"|.*(Test|Tests|IT|Spec|TestCase)\.(java|kt|cs|php|groovy|scala)|Test[A-Z].*\.(java|kt)"
)
_BUILT_FILE = re.compile(r".*\.(min|bundle|umd|prod|chunk)\.[cm]?js|.*\.map|.*\.lock|.*-lock\.\w+")
_PASSED_OVER_WORDS = """
    .md .mdx .rst .txt .adoc .html .htm .css .scss .less .svg .png .jpg .jpeg .gif .ico .webp
    .pdf .zip .gz .tgz .bz2 .xz .7z .jar .war .class .pyc .so .dll .dylib .exe .o .a .woff
    .woff2 .ttf .eot .otf .mp3 .mp4 .mov .avi .wav .csv .tsv .parquet .npy .npz .pkl .db .sqlite
    .sqlite3 .po .mo .pot .ipynb .lock .log .patch .diff .snap .map .bin .dat .wasm .d.ts .proto
    .fasta .fa .vue .svelte .ejs .hbs .mustache .haml .slim .pug
"""
_PASSED_OVER = frozenset(_PASSED_OVER_WORDS.split())
#: Written for people, by name a text file, and still a manifest.
_KEPT_NAMES = re.compile(r"crontab.*|.*cron.*\.txt|procfile.*|.*\.cron", re.IGNORECASE)


def walk(root: Path, exclude: tuple[str, ...] = ()) -> Iterator[str | Note]:
    """Return the relative paths of the files to read, in order; notes where something was left.

    Symbolic links are never followed: what they lead to is found under its own name, or lies
    outside.
    """
    stack: list[tuple[str, Ignores, int]] = [("", Ignores(), 0)]
    count = 0
    while stack:
        directory, ignores, depth = stack.pop()
        try:
            with os.scandir(root / directory) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            yield Note(directory or ".", f"cannot be listed: {error.strerror or error}")
            continue
        if _copied(entries):
            continue
        ignores = _with_ignore_file(root, directory, entries, ignores)
        below = []
        for entry in entries:
            path = f"{directory}/{entry.name}" if directory else entry.name
            is_directory = _is(entry, directory=True)
            if ignores.ignores(path, directory=is_directory) or _excluded(path, exclude):
                continue
            if is_directory:
                if depth >= DEPTH_MAX:
                    yield Note(path, f"more than {DEPTH_MAX} directories deep: skipped")
                elif _entered(entry.name):
                    below.append((path, ignores, depth + 1))
            elif _is(entry, directory=False) and _read(entry.name):
                count += 1
                if count > FILES_MAX:
                    yield Note(".", f"more than {FILES_MAX} files: the rest was not read")
                    return
                yield path
        stack.extend(reversed(below))


#: Packages that nobody writes again: a directory with several of them holds copies.
_COPIES_WORDS = """
    apscheduler bs4 certifi chardet charset_normalizer cherrypy dateutil flask httpx idna jinja2
    mako markupsafe pytz requests six.py sqlalchemy tornado tzlocal urllib3 websocket werkzeug yaml
"""
_COPIES = frozenset(_COPIES_WORDS.split())
COPIES_MIN = 3


def _copied(entries: list[os.DirEntry[str]]) -> bool:
    return sum(entry.name in _COPIES for entry in entries) >= COPIES_MIN


def _is(entry: os.DirEntry[str], *, directory: bool) -> bool:
    try:
        if directory:
            return entry.is_dir(follow_symlinks=False)
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _with_ignore_file(
    root: Path, directory: str, entries: list[os.DirEntry[str]], ignores: Ignores
) -> Ignores:
    for entry in entries:
        if entry.name == ".gitignore" and _is(entry, directory=False):
            try:
                with (root / directory / entry.name).open("rb") as opened:
                    text = decoded(opened.read(_IGNORE_BYTES_MAX))
            except OSError:
                return ignores
            return ignores.below(directory, text or "")
    return ignores


def _excluded(path: str, exclude: tuple[str, ...]) -> bool:
    return any(fnmatch(path, glob) or fnmatch(path, f"{glob.rstrip('/')}/*") for glob in exclude)


def _entered(name: str) -> bool:
    low = name.lower()
    return not (low in FOREIGN or low in BUILT or low in TESTS or low in DOCS)


def _read(name: str) -> bool:
    low = name.lower()
    if _KEPT_NAMES.fullmatch(name):
        return True
    extension = low[low.rfind(".") :] if "." in low else ""
    if extension in _PASSED_OVER or low.endswith(".d.ts"):
        return False
    return not (_TEST_FILE.fullmatch(name) or _BUILT_FILE.fullmatch(low))
