"""The scanner as other repositories call it: before a commit, and in a workflow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from onejob.cli.scan import command

ROOT = Path(__file__).resolve().parents[2]


def test_the_hook_calls_a_command_that_exists_with_the_parsers_that_it_needs() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()

    assert hook["entry"] == f"onejob {command.name}"
    assert all(f'"{each}"' in project for each in hook["additional_dependencies"])


def test_the_action_uses_options_that_exist_and_puts_no_input_into_a_script() -> None:
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    scripts = [step["run"] for step in action["runs"]["steps"]]
    options = {name for parameter in command.params for name in parameter.opts}

    assert {*re.findall(r"--[a-z-]+", " ".join(scripts))} - {"--quiet"} <= options
    assert not any("${{" in script for script in scripts)
