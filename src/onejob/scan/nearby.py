"""Which launches start a trigger's process: by the names that both of them use.

A command says ``python -m shop.clock``, an image is called ``registry/shop-clock``, a Deployment
``shop-clock``; the trigger stands in ``shop/clock/main.py``. Words that every project uses say
nothing. Where several launches agree equally well, all of them are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from onejob.scan.facts import Launch, Trigger

#: Too many equal answers are none.
EQUALS_MAX = 6
#: A word that more launches than this use is the project's own name, or says as little.
RARE_MAX, RARE_SHARE = 3, 0.2
#: Less agreement than one telling word is none.
LEAST = 1.0
TOLD_SHARE = 0.4
#: A command that names the very file.
EXACT = 3.0
_CODE = re.compile(r"\.(py|[cm]?[jt]s|rb|go|php|jar)$")
_SERVERS = {
    "python": ("gunicorn", "uvicorn", "hypercorn", "uwsgi", "granian", "daphne", "waitress"),
    "javascript": ("pm2", "cluster"),
    "typescript": ("pm2", "cluster"),
    "ruby": ("puma", "unicorn", "passenger"),
}
_COMMON_WORDS = """
    src app apps main index lib libs pkg cmd internal core server service services script
    scripts bin run start python node java go ruby manage py js ts jar deployment template
    templates chart charts kubernetes k8s deploy docker compose yml yaml image latest backend
    api web the com org net io github ghcr registry www http https container prod production dev
    stage env sh bash exec command default config settings common util utils init module modules
    package packages root
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_WORD = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")


class Launches:
    """The launches of a tree, asked for one trigger at a time."""

    def __init__(self, launches: Iterable[Launch]) -> None:
        self._known = [(launch, _words((*launch.words, launch.name))) for launch in launches]
        count = Counter(word for _, words in self._known for word in words)
        usual = max(RARE_MAX, len(self._known) * RARE_SHARE)
        self._weights = {word: 1.0 if each <= usual else 0.25 for word, each in count.items()}

    def of(self, trigger: Trigger) -> tuple[Launch, ...]:
        """Return the launches that start this trigger's process, as far as names tell."""
        if trigger.fires not in ("process", "scheduler"):
            return ()
        mine = _words((trigger.path.rpartition(".")[0], *trigger.words))
        scored = [
            (score, launch)
            for launch, words in self._known
            if _may_fire(trigger, launch)
            and (score := self._agreement(trigger, mine, launch, words)) >= LEAST
        ]
        best = max((score for score, _ in scored), default=0.0)
        # What says how many there are outweighs an image or a development setup that does not.
        told = [(score, launch) for score, launch in scored if launch.replicas is not None]
        nearest = max((score for score, _ in told), default=0.0)
        if nearest >= best * TOLD_SHARE and nearest:
            scored, best = told, nearest
        found = [launch for score, launch in scored if score == best]
        if not found:
            found = [each for each, _ in self._known if _by_kind(trigger, each)]
        return tuple(found) if len(found) <= EQUALS_MAX else ()

    def _agreement(
        self, trigger: Trigger, mine: frozenset[str], launch: Launch, words: frozenset[str]
    ) -> float:
        named = EXACT if any(_is_module(trigger.path, word) for word in launch.words) else 0.0
        return named + sum(self._weights[word] for word in mine & words)


def _is_module(path: str, word: str) -> bool:
    """Decide whether a command names this very file: ``shop.wsgi:app``, ``scripts/clock.py``."""
    name, _, _ = word.partition(":")
    wanted = _CODE.sub("", name.removeprefix("./")).replace(".", "/").strip("/")
    stem = path.rpartition(".")[0].removesuffix("/__init__").removesuffix("/__main__")
    return bool(wanted) and f"/{stem}".endswith(f"/{wanted}")


def _by_kind(trigger: Trigger, launch: Launch) -> bool:
    """Decide what starts a trigger where no names agree: a beat, or the language's web server."""
    if trigger.fires == "scheduler":
        return _may_fire(trigger, launch)
    servers = _SERVERS.get(trigger.language, ())
    return launch.fires == "web" and launch.name.lower() in servers


def _may_fire(trigger: Trigger, launch: Launch) -> bool:
    if trigger.fires == "scheduler":
        return launch.fires == "scheduler" or launch.embeds
    return launch.fires != "scheduler"


def _words(texts: Iterable[str]) -> frozenset[str]:
    found = set[str]()
    for text in texts:
        for word in _WORD.findall(text.lower()):
            whole = word.replace("-", "_")
            found.add(whole)
            found.update(whole.split("_"))
    return frozenset(word for word in found - _COMMON if len(word) > 2 and not word.isdigit())
