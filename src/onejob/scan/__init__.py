"""``onejob scan``: every place in a repository where a job is triggered, what multiplies it, what
guards it.

::

    walk ──▶ read ──▶ sources/ ──▶ facts ──▶ join ──▶ verdict ──▶ findings ──▶ reports/
             text     parse, say    frozen     by name    pure      + rules/       text, json, ...

Parts, and what each owes the others:

* **A source** (``sources/<kind of file>.py``) has ``PATTERNS`` and ``read(file)``, which returns
  facts. It is found by standing in the package. It parses and states facts (``facts.py``); it never
  judges, prints, or carries command text or values into a fact.
* **Facts**: ``Trigger`` (a place that starts work), ``Launch`` (a place that says how a process is
  started, how often), ``Function`` (a function, decorator or aspect whose body guards; found by
  name from a trigger's ``target`` and ``marks``), ``Setting`` (changes what a library's guard is
  worth; ``settings.py`` says how), ``Smell``, ``Note`` (could not be judged, and why).
* **A guard** says which verdict it earns (``Guard.gives``). A guard on the trigger itself goes into
  ``Trigger.guards``; one in another file into a ``Function`` or a ``Setting``.
* **``Trigger.alone``** is the verdict without a guard: UNGUARDED unless the platform or the purpose
  says otherwise (AT_LEAST_ONCE, CI, CONSUMER, PER_PROCESS_OK, PER_PROCESS_SCHEDULE).
  **``Trigger.fires``** says who fires it: ``process``, ``scheduler``, ``host``, ``platform``;
  launches are joined with the first two.
* **A launch** is joined with triggers by ``words``: names in the command, the image, the manifest.
  ``reported=False`` for one that only explains (any Deployment); True where it starts a scheduler.
* **A kind** (``Trigger.kind``, ``Launch.kind``, ``Smell.kind``) belongs to exactly one rule: the
  file in ``rules/`` whose KINDS lists it. Codes: OJ101-119 code that fires by itself, OJ120-149
  hosts, platforms and databases, OJ301-319 launches, OJ401-419 consumers and retries, OJ501-
  smells. Each rule's docstring is its page.

Tests: ``tests/scan/fixtures`` has code of our own, with ``expect: OJ101 UNGUARDED`` and
``ok: OJ101`` in comments on the lines themselves.
"""

from __future__ import annotations

from onejob.scan.engine import Options, Scan, scan
from onejob.scan.facts import Function, Guard, Launch, Note, Setting, Smell, Trigger
from onejob.scan.finding import Finding, Related, Verdict

__all__ = [
    "Finding",
    "Function",
    "Guard",
    "Launch",
    "Note",
    "Options",
    "Related",
    "Scan",
    "Setting",
    "Smell",
    "Trigger",
    "Verdict",
    "scan",
]
