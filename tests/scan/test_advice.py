"""What the scanner tells people to write exists, and there is a way without onejob."""

from __future__ import annotations

import re

import pytest

import onejob
from onejob import App, Job
from onejob.cli.root import COMMANDS
from onejob.scan.finding import Verdict
from onejob.scan.registry import Rule, all_rules

TRIGGERS = [rule for rule in all_rules() if rule.code < "OJ500"]


def texts(rule: Rule) -> str:
    instead = rule.page.partition("\nInstead\n")[2]
    return "\n".join([instead, rule.advice, *rule.advice_for.values(), *rule.advice_kinds.values()])


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_name_of_ours_in_an_advice_exists(rule: Rule) -> None:
    app = App("memory://")

    for name in re.findall(r"\bapp\.([a-z_]+)", texts(rule)):
        assert hasattr(app, name), f"{rule.code} advises app.{name}"
    for name in re.findall(r"\bonejob\.([a-z_]+)", texts(rule)):
        assert name in onejob.__all__, f"{rule.code} advises onejob.{name}"
    for name in re.findall(r"\bjob\.([a-z_]+)\(", texts(rule)):
        assert hasattr(Job, name), f"{rule.code} advises job.{name}"
    for name in re.findall(r"\bonejob ([a-z]+) [A-Za-z-]+ -", texts(rule)):
        assert name in COMMANDS, f"{rule.code} advises onejob {name}"
    assert not re.search(r"@app\.(guard|schedule)\b", texts(rule))


@pytest.mark.parametrize("rule", TRIGGERS, ids=lambda rule: rule.code)
def test_what_runs_too_often_has_a_remedy_with_onejob_and_one_without(rule: Rule) -> None:
    for kind in rule.kinds:
        advice = rule.advise(Verdict.UNGUARDED, kind)

        assert "onejob" in advice.partition("Without onejob: ")[0], advice
        assert advice.partition("Without onejob: ")[2], advice


def test_an_advice_of_a_kind_is_of_a_kind_of_its_rule() -> None:
    for rule in all_rules():
        assert rule.advice_kinds.keys() <= set(rule.kinds)
