"""Failures that others had, as the scanner is to see them."""

from __future__ import annotations

import json
from pathlib import Path

from onejob.scan import Finding, Verdict, scan
from onejob.scan.reports import as_html, as_json, as_markdown, as_sarif, table


def only(findings: tuple[Finding, ...], *, role: str = "trigger") -> Finding:
    (found,) = [finding for finding in findings if finding.role == role]
    return found


def test_limits_of_one_process_guard_nothing_and_are_called_that(tmp_path: Path) -> None:
    """A02: max_instances, coalesce, the pool and the grace time are per process."""
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from apscheduler.executors.pool import ThreadPoolExecutor\n"
        "s = BackgroundScheduler(executors={'default': ThreadPoolExecutor(1)})\n"
        "s.add_job(send, 'cron', hour=6, max_instances=1, coalesce=True, misfire_grace_time=60)\n"
    )

    found = only(scan(tmp_path).findings)

    assert found.verdict is Verdict.UNGUARDED
    assert found.guard is None
    assert "per-process only" in found.reason
    assert all(word in found.reason for word in ("max_instances", "coalesce", "executors"))


def test_a_trigger_is_joined_with_the_command_that_multiplies_it(tmp_path: Path) -> None:
    """A04: startup hooks run in each of five workers."""
    (tmp_path / "app.py").write_text(
        "from apscheduler.schedulers.asyncio import AsyncIOScheduler\n"
        "from apscheduler.triggers.cron import CronTrigger\n"
        "scheduler = AsyncIOScheduler()\n"
        "scheduler.add_job(send, CronTrigger(hour=3))\n"
    )
    (tmp_path / "Dockerfile").write_text("FROM python\nCMD uvicorn app:app --workers 5\n")

    found = only(scan(tmp_path).findings)

    assert (found.path, found.line, found.verdict) == ("app.py", 4, Verdict.UNGUARDED)
    assert found.runs_per_tick.endswith("5 workers")
    assert [(each.path, each.line) for each in found.related] == [("Dockerfile", 2)]


def test_the_first_child_of_a_parent_is_first_on_its_host_only() -> None:
    """A05: the trick with the process ids, beside a guard in a store."""
    findings = scan(Path(__file__).parent / "fixtures/python/t09_repeat_every.py").findings
    verdicts = {finding.name: finding.verdict for finding in findings}

    assert verdicts["first_child_only"] is Verdict.HOST_ONLY
    assert verdicts["guarded"] is Verdict.GUARDED


def test_a_minute_that_is_drawn_at_load_is_another_in_each_replica() -> None:
    """A24: a cron minute taken from the clock, or from chance, when the class is loaded."""
    findings = scan(Path(__file__).parent / "fixtures/javascript/t33_nestjs.ts").findings
    drawn = {f.name for f in findings if f.verdict is Verdict.PER_PROCESS_SCHEDULE}

    assert drawn == {"random", "night"}


def test_a_guard_of_one_host_says_how_many_hosts_are_left() -> None:
    """A08: instance number 0 exists once on every host."""
    found = only(scan(Path(__file__).parent / "fixtures/javascript/a08.tree").findings)

    assert found.verdict is Verdict.HOST_ONLY
    assert "3 hosts still run it" in found.reason
    assert found.runs_per_tick.startswith("3 = 3 hosts")


def test_a_table_of_schedules_is_read_row_by_row(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "JOBS = [(bill, '0 3 * * *'), (mail, '*/5 * * * *')]\n"
        "for function, when in JOBS:\n"
        "    BackgroundScheduler().add_job(function, when)\n"
    )

    findings = scan(tmp_path).findings

    assert [(f.name, f.schedule) for f in findings] == [
        ("bill", "0 3 * * *"),
        ("mail", "*/5 * * * *"),
    ]
    assert {each.line for f in findings for each in f.related} == {4}


def test_no_report_repeats_a_command_or_a_token(tmp_path: Path) -> None:
    """G07: scheduled commands carry bearer tokens."""
    token = "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0LXBheWxvYWQ.c2lnbmF0dXJl"
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        f"BackgroundScheduler().add_job(lambda: get('http://x.test', auth='{token}'), 'cron', "
        f"hour=3, args=['{token}'])\n"
        f"beat = 'celery -A shop beat --broker=redis://:{token}@cache.test'\n"
    )
    (tmp_path / "crontab").write_text(f"*/5 * * * * curl -H 'Authorization: {token}' http://x\n")
    (tmp_path / "jobs.sql").write_text(
        f"SELECT cron.schedule('n', '0 3 * * *', $$SELECT http_get('{token}')$$);\n"
    )

    found = scan(tmp_path)
    reports = [
        as_json.report(found),
        as_sarif.report(found),
        as_markdown.report(found),
        as_html.report(found),
        "\n".join(line for line, _ in table.lines(found)),
        "\n".join(line for line, _ in table.lines(found, tmp_path)),
    ]

    assert len(found.findings) >= 3
    for report in reports:
        assert token not in report
        assert "c2VjcmV0" not in report


def test_a_guard_where_it_has_no_effect_is_called_inert(tmp_path: Path) -> None:
    """G08: catchup among the defaults of tasks is read by nobody."""
    (tmp_path / "dag.py").write_text(
        "from airflow import DAG\n"
        "DAG('shredder', schedule='@daily', default_args={'catchup': False})\n"
    )

    found = only(scan(tmp_path).findings)

    assert found.verdict is Verdict.INERT_GUARD
    assert "catchup" in found.reason


def test_one_unguarded_line_among_many_guarded_ones_is_found(tmp_path: Path) -> None:
    guarded = "".join(
        f"@app.once_per('day')\ndef job_number_{n}(): ...\n"
        f"s.add_job(job_number_{n}, 'cron', hour={n})\n"
        for n in range(20)
    )
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from onejob import App\n"
        "app, s = App('sqlite:///x.db'), BackgroundScheduler()\n"
        f"{guarded}def needle(): ...\ns.add_job(needle, 'cron', hour=21)\n"
    )

    found = scan(tmp_path)

    assert (found.triggers, found.unguarded) == (21, 1)
    assert [f.name for f in found.findings if f.verdict is Verdict.UNGUARDED] == ["needle"]


def test_json_has_the_fields_of_the_api(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("import schedule\nschedule.every(5).minutes.do(work)\n")

    document = json.loads(as_json.report(scan(tmp_path)))

    assert document["summary"] == {"triggers": 1, "unguarded": 1, "files": 1, "allowed": 0}
    (finding,) = document["findings"]
    assert finding["schedule"] == "every 5m"
    assert {"path", "line", "role", "kind", "language", "name", "guard", "verdict"} <= set(finding)
    assert {"runs_per_tick", "rule", "reason", "advice", "related"} <= set(finding)
