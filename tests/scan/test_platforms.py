"""Platforms whose files hold no comments, and those that name their files in their own way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onejob.scan import Verdict, scan

PLATFORMS = {
    "vercel.json": json.dumps({"crons": [{"path": "/api/bill", "schedule": "0 5 * * *"}]}),
    "bill/function.json": json.dumps(
        {"bindings": [{"type": "timerTrigger", "schedule": "0 */5 * * * *", "name": "t"}]}
    ),
    "rules.template.json": json.dumps(
        {"Resources": {"Rule": {"Properties": {"ScheduleExpression": "rate(5 minutes)"}}}}
    ),
    "serverless.yml": "functions:\n  bill:\n    events:\n      - schedule: rate(10 minutes)\n",
    "serverless.yaml": "functions:\n  bill:\n    events:\n      - schedule:\n"
    "          rate: cron(0 3 * * ? *)\n",
    "render.yaml": "services:\n  - type: cron\n    name: bill\n    schedule: '0 3 * * *'\n",
    "cron.yaml": "cron:\n- url: /tasks/bill\n  schedule: every 24 hours\n",
    "netlify.toml": '[functions."bill"]\nschedule = "0 3 * * *"\n',
    "railway.json": json.dumps({"deploy": {"cronSchedule": "0 3 * * *"}}),
}


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform_s_schedule_is_delivered_at_least_once(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(PLATFORMS[name])

    (found,) = scan(tmp_path).findings

    assert (found.rule, found.verdict) == ("OJ123", Verdict.AT_LEAST_ONCE)
    assert found.schedule
    assert "key" in found.advice


BUILDS = {
    ".circleci/config.yml": "workflows:\n  nightly:\n    triggers:\n      - schedule:\n"
    "          cron: '0 0 * * *'\n",
    "azure-pipelines.yml": "schedules:\n- cron: '0 3 * * *'\n  displayName: nightly\n",
    ".gitea/workflows/x.yml": "on:\n  schedule:\n    - cron: '@daily'\njobs: {}\n",
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_build_service_s_schedule_is_told_from_a_job(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(BUILDS[name])

    (found,) = scan(tmp_path).findings

    assert (found.role, found.rule, found.verdict) == ("ci", "OJ122", Verdict.CI)


def test_a_periodic_job_of_nomad_may_be_kept_from_overlapping(tmp_path: Path) -> None:
    job = (
        'job "bill" {\n  periodic {\n    cron = "0 3 * * *"\n    prohibit_overlap = true\n  }\n}\n'
    )
    (tmp_path / "bill.nomad").write_text(job)
    (tmp_path / "sweep.nomad").write_text(job.replace("    prohibit_overlap = true\n", ""))

    verdicts = [(found.path, found.rule, found.verdict) for found in scan(tmp_path).findings]

    assert verdicts == [
        ("bill.nomad", "OJ121", Verdict.NO_OVERLAP),
        ("sweep.nomad", "OJ121", Verdict.UNGUARDED),
    ]


def test_an_entrypoint_without_exec_is_named(tmp_path: Path) -> None:
    """F12: the shell stays process 1."""
    start = "#!/bin/sh\nmigrate\n{}celery -A shop worker -B\n"
    (tmp_path / "entrypoint.sh").write_text(start.format(""))
    (tmp_path / "entrypoint-exec.sh").write_text(start.format("exec "))

    smells = [found.path for found in scan(tmp_path).findings if found.role == "smell"]

    assert smells == ["entrypoint.sh"]


def test_what_only_schedules_updates_or_backups_is_no_job(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/dependabot.yml").write_text("updates:\n  - schedule: {interval: daily}\n")
    (tmp_path / "renovate.json").write_text('{"schedule": ["before 5am on monday"]}')
    (tmp_path / "backup.tf").write_text(
        'resource "aws_backup_plan" "b" {\n  rule {\n    schedule = "cron(0 5 ? * * *)"\n  }\n}\n'
    )

    assert scan(tmp_path).findings == ()
