"""The rules, found by looking into ``rules/``: one file, one rule, one docstring."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

from onejob.errors import UsageError
from onejob.scan import rules
from onejob.scan.finding import Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """A code that never changes its meaning, the kinds it is about, and what to do."""

    code: str
    name: str
    """How it reads after "allow": ``allow timer-loop``."""
    kinds: tuple[str, ...]
    advice: str
    """The smallest change that makes it safe, with onejob and without."""
    advice_for: Mapping[Verdict, str]
    """Advice that fits one verdict better."""
    advice_kinds: Mapping[str, str]
    """Advice that fits one kind better: what its library makes smaller."""
    page: str = ""
    """The docstring of the rule's file: What, Why it matters, Example, Instead, When to ignore."""

    def advise(self, verdict: Verdict, kind: str) -> str:
        """Return what to do about a finding of this kind; "" where nothing is to do."""
        if verdict in self.advice_for:
            return self.advice_for[verdict]
        return (
            ""
            if verdict.rank >= Verdict.CONSUMER.rank
            else self.advice_kinds.get(kind, self.advice)
        )


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, by code."""
    found = []
    for module in pkgutil.iter_modules(rules.__path__):
        loaded = import_module(f"{rules.__name__}.{module.name}")
        code, name, page = loaded.CODE, loaded.NAME, inspect.cleandoc(loaded.__doc__ or "")
        advice_for = getattr(loaded, "ADVICE_FOR", {})
        of_kinds = getattr(loaded, "ADVICE_KINDS", {})
        found.append(Rule(code, name, loaded.KINDS, loaded.ADVICE, advice_for, of_kinds, page))
    return tuple(sorted(found, key=lambda rule: rule.code))


@lru_cache(maxsize=1)
def _by_kind() -> dict[str, Rule]:
    return {kind: rule for rule in all_rules() for kind in rule.kinds}


def rule_for(kind: str) -> Rule:
    """Return the rule that a kind belongs to; each kind belongs to exactly one."""
    return _by_kind()[kind]


def rule_named(text: str) -> Rule:
    """Return the rule with this code or name; UsageError names those that exist."""
    for rule in all_rules():
        if text.upper() == rule.code or text.lower() == rule.name:
            return rule
    known = ", ".join(f"{rule.code} {rule.name}" for rule in all_rules())
    raise UsageError(f"no rule {text!r}. There are: {known}")
