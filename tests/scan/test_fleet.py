"""How often a job runs in the fleet, put together from several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from onejob.scan import Finding, Verdict, scan

FIXTURES = Path(__file__).parent / "fixtures"
APP = """
from apscheduler.schedulers.background import BackgroundScheduler
scheduler = BackgroundScheduler()
scheduler.add_job(send_digest, "cron", hour=6)
scheduler.start()
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop-web}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - {name: web, image: "registry.example/shop:1"}
"""


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def only(root: Path) -> Finding:
    (found,) = [finding for finding in scan(root).findings if finding.role == "trigger"]
    return found


def test_replicas_of_a_manifest_times_workers_of_its_image(tmp_path: Path) -> None:
    """A04: three replicas with four workers each; both lines are cited."""
    write(tmp_path, shop__app_dot_py=APP, deploy__web_dot_yaml=DEPLOYMENT)
    (tmp_path / "Dockerfile").write_text(
        'FROM python\nCMD ["gunicorn", "-w", "4", "shop.app:app"]\n'
    )

    found = only(tmp_path)

    assert found.runs_per_tick == "12 = 3 replicas \N{MULTIPLICATION SIGN} 4 workers"
    places = {(each.path, each.line) for each in found.related}
    assert places >= {("deploy/web.yaml", 6), ("Dockerfile", 2)}


def test_workers_that_the_environment_says_are_found_in_the_image(tmp_path: Path) -> None:
    write(tmp_path, shop__app_dot_py=APP, deploy__web_dot_yaml=DEPLOYMENT)
    (tmp_path / "run.sh").write_text(
        "#!/bin/sh\nexec gunicorn --workers ${SHOP_WORKERS} shop.app:app\n"
    )
    (tmp_path / "Dockerfile").write_text(
        "FROM python\nENV OTHER=1 \\\n    SHOP_WORKERS=2\nCMD /run.sh\n"
    )

    found = only(tmp_path)

    assert found.runs_per_tick == "6 = 3 replicas \N{MULTIPLICATION SIGN} 2 workers"
    places = {(each.path, each.line) for each in found.related}
    assert places >= {("deploy/web.yaml", 6), ("run.sh", 2), ("Dockerfile", 3)}


def test_replicas_of_a_chart_come_from_its_values(tmp_path: Path) -> None:
    chart = DEPLOYMENT.replace("replicas: 3", "replicas: {{ .Values.web.replicaCount }}")
    write(
        tmp_path,
        shop__app_dot_py=APP,
        chart__templates__web_dot_yaml=chart,
        chart__values_dot_yaml="web:\n  replicaCount: 5\n",
        other__values_dot_yaml="web:\n  replicaCount: 9\n",
    )

    found = only(tmp_path)

    assert found.runs_per_tick.startswith("5 = 5 replicas")
    assert ("chart/values.yaml", 2) in {(each.path, each.line) for each in found.related}


def test_an_autoscaler_in_another_file_makes_it_many(tmp_path: Path) -> None:
    scaler = (
        "kind: HorizontalPodAutoscaler\n"
        "spec:\n"
        "  scaleTargetRef: {kind: Deployment, name: shop-web}\n"
        "  maxReplicas: 8\n"
    )
    write(
        tmp_path,
        shop__app_dot_py=APP,
        deploy__web_dot_yaml=DEPLOYMENT.replace("replicas: 3", "replicas: 1"),
        deploy__hpa_dot_yaml=scaler,
    )

    found = only(tmp_path)

    assert found.verdict is Verdict.UNGUARDED
    assert "8 or more replicas" in found.runs_per_tick


@pytest.mark.parametrize(
    ("tree", "verdict"),
    [("a21_overlap.tree", Verdict.OVERLAP_ON_DEPLOY), ("a21_recreate.tree", Verdict.SINGLE)],
)
def test_one_replica_is_two_during_a_rollout_unless_the_old_one_ends_first(
    tree: str, verdict: Verdict
) -> None:
    """A21: two schedulers while a rolling update goes on."""
    found = only(FIXTURES / "infrastructure" / tree)

    assert found.verdict is verdict
    assert ("2 during a rollout" in found.runs_per_tick) is (verdict is Verdict.OVERLAP_ON_DEPLOY)
    assert "deployment.yaml:5" in found.reason


def test_an_annotation_that_nothing_enables_is_inert() -> None:
    """A12: a lock annotation without what enables it, and without a provider."""
    inert = only(FIXTURES / "jvm" / "t35_inert.tree")
    no_provider = only(FIXTURES / "jvm" / "t35_no_provider.tree")

    assert {inert.verdict, no_provider.verdict} == {Verdict.INERT_GUARD}
    assert inert.guard == "@SchedulerLock"


def test_a_beat_inside_each_worker_is_called_a_multiplier() -> None:
    """A16: beat embedded in each autoscaled worker."""
    findings = scan(FIXTURES / "infrastructure" / "a16_beats.tree").findings
    (launch,) = [finding for finding in findings if finding.role == "launch"]
    (job,) = [finding for finding in findings if finding.role == "trigger"]

    assert (launch.verdict, launch.rule) == (Verdict.MULTIPLIER, "OJ302")
    assert job.runs_per_tick.startswith("2 = 2 replicas")
    assert (launch.path, launch.line) in {(each.path, each.line) for each in job.related}


def test_a_shell_as_first_process_is_named(tmp_path: Path) -> None:
    """F12: a shell does not pass SIGTERM on, and the worker is killed."""
    (tmp_path / "Dockerfile").write_text("FROM python\nCMD celery -A shop worker\n")
    (tmp_path / "Dockerfile.exec").write_text("FROM python\nCMD exec celery -A shop worker\n")
    (tmp_path / "Dockerfile.list").write_text(
        'FROM python\nCMD ["celery", "-A", "shop", "worker"]\n'
    )
    (tmp_path / "Dockerfile.sh").write_text('FROM python\nCMD ["sh", "-c", "celery worker -A x"]\n')

    findings = scan(tmp_path).findings

    named = [finding.path for finding in findings if finding.kind == "shell-as-pid-1"]
    assert named == ["Dockerfile", "Dockerfile.sh"]
    assert "SIGTERM" in findings[0].reason
