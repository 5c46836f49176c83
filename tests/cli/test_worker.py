"""``onejob worker`` and ``onejob trigger``: real processes over a real store."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Shop

PATIENCE_SECONDS = 20.0


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait, with a bound, for something that another process does."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def test_a_triggered_run_is_executed_and_a_known_key_makes_no_second(shop: Shop) -> None:
    arguments = ("trigger", "shop:app", "resize", "--key", "img-7", "--json", "--args")
    first = json.loads(shop.finished(*arguments, '{"image_id": 7}')[1])
    again = json.loads(shop.finished(*arguments, '{"image_id": 8}')[1])
    worker = shop.start("worker", "shop:app", "--json")
    try:
        eventually(
            lambda: shop.json("runs", "--state", "succeeded") != [], "the run has not succeeded"
        )
    finally:
        worker.send_signal(signal.SIGTERM)
    code, out, _ = finished(worker)

    assert (first["created"], first["conflict"]) == (True, False)
    assert (again["id"], again["created"], again["conflict"]) == (first["id"], False, True)
    assert shop.json("runs")[0]["result"] == 14
    assert code == 0
    events = [json.loads(line) for line in out.splitlines()]
    assert {"replica.joined", "run.ended", "replica.left"} <= {e["event"] for e in events}
    assert all("at" in event for event in events)


def test_work_left_at_the_end_of_the_grace_period_is_given_back_and_exits_5(
    shop: Shop, tmp_path: Path
) -> None:
    """A handler in a thread cannot be cancelled: the process ends, so that it cannot go on."""
    mark = tmp_path / "begun"
    worker = shop.start("worker", "shop:app", "--grace", "200ms")
    shop.finished("trigger", "shop:app", "slow", "--args", json.dumps({"mark": str(mark)}))
    eventually(mark.exists, "the handler has not begun")

    worker.send_signal(signal.SIGTERM)
    code, _, err = finished(worker)

    assert code == 5
    assert "given back" in err
    [run] = shop.json("runs")
    assert (run["state"], run["interrupted"], run["attempt"]) == ("scheduled", 1, 0)


def test_a_second_signal_ends_the_process_at_once(shop: Shop, tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    worker = shop.start("worker", "shop:app", "--grace", "50s")
    shop.finished("trigger", "shop:app", "slow", "--args", json.dumps({"mark": str(mark)}))
    eventually(mark.exists, "the handler has not begun")

    worker.send_signal(signal.SIGINT)
    assert worker.stderr is not None
    eventually(lambda: "draining" in worker.stderr.readline(), "it does not drain")  # type: ignore[union-attr]
    worker.send_signal(signal.SIGINT)

    assert finished(worker)[0] == 130


def test_a_worker_without_tables_refuses_before_it_starts(empty: Shop) -> None:
    code, out, err = empty.finished("worker", "shop:app")

    assert (code, out) == (3, "")
    assert "onejob init" in err


def test_a_worker_that_is_disabled_starts_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEJOB_DISABLED", "1")

    code, _, err = shop.finished("worker", "shop:app")

    assert code == 0
    assert "ONEJOB_DISABLED" in err
    assert shop.json("replicas") == []


def test_a_worker_without_a_scheduler_declares_no_schedule(shop: Shop) -> None:
    worker = shop.start("worker", "shop:app", "--no-scheduler", "--queues", "default")
    try:
        eventually(lambda: shop.json("replicas") != [], "it has not joined")
    finally:
        worker.send_signal(signal.SIGTERM)

    assert finished(worker)[0] == 0
    assert shop.json("schedules") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("worker", "nonsense:app"), "there is no module 'nonsense'"),
        (("worker", "shop"), "Write MODULE:APP"),
        (("worker", "shop:nonsense"), "Did you mean shop:app?"),
        (("worker", "shop:resize"), "is a Job, not an App"),
        (("worker", "shop:app", "--grace", "soon"), "is not a duration"),
        (("worker", "shop:app", "--queues", ","), "at least one queue"),
        (("trigger", "shop:app", "resise"), "Did you mean 'resize'?"),
        (("trigger", "shop:app", "resize", "--args", "7"), "must be a JSON object"),
        (("trigger", "shop:app", "resize", "--args", "{"), "is not JSON"),
        (("trigger", "shop:app", "resize"), "missing a required argument: 'image_id'"),
        (("trigger", "shop:app", "resize", "--key", " "), "is blank"),
    ],
)
def test_what_cannot_be_right_is_a_usage_error_that_says_why(
    shop: Shop, arguments: tuple[str, ...], words: str
) -> None:
    """P8: nothing is written."""
    code, out, err = shop.finished(*arguments)

    assert (code, out) == (2, "")
    assert words in err
    assert shop.json("runs") == []
    assert shop.json("replicas") == []


def test_what_a_trigger_advises_is_asked_of_the_same_store(shop: Shop) -> None:
    code, _, err = shop.finished("trigger", "shop:app", "resize", "--args", '{"image_id": 7}')

    assert code == 0
    assert "What becomes of it: ONEJOB_APP=shop:app onejob why resize " in err


def test_a_queue_that_no_job_is_in_is_remarked_upon(shop: Shop) -> None:
    worker = shop.start("worker", "shop:app", "--queues", "default,nope", "--json")
    try:
        eventually(lambda: shop.json("replicas") != [], "the worker has not joined")
    finally:
        worker.send_signal(signal.SIGTERM)
    code, _, err = finished(worker)

    assert code == 0
    assert "No job of shop:app is in queue nope. Its queues: default." in err
