"""``onejob once``: any program, once over all machines, told by its exit code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onejob.commands import claims, views
from onejob.commands.claims import ClaimView

from .conftest import Shop

pytestmark = pytest.mark.slow

APPEND = ("sh", "-c", "echo ran >>effects; echo $ONEJOB_KEY")


def effects(shop: Shop) -> int:
    """Return how often a program has had its effect."""
    file = shop.directory / "effects"
    return len(file.read_text().splitlines()) if file.exists() else 0


def told(err: str) -> dict[str, Any]:
    """Return what ``--json`` says: the last line of stderr."""
    said: dict[str, Any] = json.loads(err.splitlines()[-1])
    return said


def row(shop: Shop, key: str) -> ClaimView:
    [view] = shop.app.store.run(claims.read(claims.PERIOD, "mail", [key]))
    return view


def test_of_machines_that_run_one_command_for_one_day_one_runs_it(shop: Shop) -> None:
    """A19, A20, A22: together, and one that comes when the work has long ended."""
    started = [
        shop.start("once", "mail", "--per", "day", "--tz", "Europe/Berlin", "--json", "--", *APPEND)
        for _ in range(4)
    ]
    ended = [(*process.communicate(timeout=40), process.returncode) for process in started]
    late = shop.finished(
        "once",
        "mail",
        "--per",
        "day",
        "--tz",
        "Europe/Berlin",
        "--skipped-exit",
        "9",
        "--",
        *APPEND,
    )

    assert effects(shop) == 1
    assert [code for _, _, code in ended] == [0] * 4
    ran = [(out, told(err)) for out, err, _ in ended if told(err)["ran"]]
    skipped = [(out, told(err)) for out, err, _ in ended if not told(err)["ran"]]
    [(out, said)] = ran
    assert out == f"{said['key']}\n"
    assert said == {
        "name": "mail",
        "ran": True,
        "exit": 0,
        "key": row(shop, said["key"]).key,
        "token": int(row(shop, said["key"]).token),
        "why": None,
        "busy": False,
    }
    assert [(out, one["key"], one["token"]) for out, one in skipped] == [
        ("", said["key"], None)
    ] * 3
    assert late == (9, "", "")
    assert len(shop.app.store.run(views.events(schedule="mail"))) == 4


def test_the_scheduled_time_as_the_key_is_run_once_however_often_it_is_delivered(
    sqlite_shop: Shop,
) -> None:
    """A19: the second pod of one scheduled time exits 0 without effect."""
    shop = sqlite_shop
    at = "2026-11-29T02:00:00Z"
    first = shop.finished("once", "mail", "--key", at, "--", *APPEND)
    second = shop.finished("once", "mail", "--key", at, "--json", "--", *APPEND)
    other = shop.finished("once", "mail", "--key", "2026-11-30T02:00:00Z", "--", *APPEND)

    assert first == (0, f"{at}\n", "")
    assert second[:2] == (0, "")
    assert told(second[2])["why"].startswith("done by ")
    assert other[0] == 0
    assert effects(shop) == 2


def test_a_program_that_fails_gives_its_key_back_unless_told_otherwise(sqlite_shop: Shop) -> None:
    """The exit code is the program's."""
    shop = sqlite_shop
    fail = ("sh", "-c", "exit 7")
    given_back = shop.finished("once", "mail", "--key", "1", "--", *fail)
    state = row(shop, "1")
    again = shop.finished("once", "mail", "--key", "1", "--", *APPEND)
    kept = shop.finished("once", "mail", "--key", "2", "--keep-failed", "--", *fail)
    not_again = shop.finished("once", "mail", "--key", "2", "--json", "--", *APPEND)

    assert (given_back[0], state.state, state.error) == (7, "free", "exit 7")
    assert again[0] == 0
    assert (kept[0], row(shop, "2").state) == (7, "failed")
    assert (not_again[0], told(not_again[2])["ran"]) == (0, False)
    assert effects(shop) == 1


def test_how_a_program_ends_is_our_exit_code(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    killed = shop.finished("once", "mail", "--key", "1", "--", "sh", "-c", "kill -9 $$")
    missing = shop.finished("once", "mail", "--key", "2", "--json", "--", "no-such-program", "x")
    forbidden = shop.finished("once", "mail", "--", str(shop.directory))

    assert killed == (137, "", "")
    assert missing[0] == forbidden[0] == 127
    assert "its path, or its name if it is on PATH" in missing[2]
    assert told(missing[2])["ran"] is False
    assert "no-such-program" in missing[2].splitlines()[0]
    assert [row(shop, key).state for key in "12"] == ["free", "free"]


def test_a_program_finds_token_and_key_and_no_url_and_its_streams_untouched(
    sqlite_shop: Shop,
) -> None:
    """G03: its arguments may hold a secret, and so may our URL."""
    shop = sqlite_shop
    script = 'echo "$ONEJOB_TOKEN $ONEJOB_KEY [$ONEJOB_URL]"; cat; echo problem >&2'
    program = ("sh", "-c", script, "sh", "s3cr3t-argument")
    process = subprocess.run(
        _command("once", "mail", "--key", "k", "--json", "--", *program),
        cwd=shop.directory,
        env={**_environ(), **shop.environment, "ONEJOB_TOKEN": "99", "ONEJOB_KEY": "outer"},
        input="through\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    token = int(row(shop, "k").token)

    assert process.stdout.splitlines() == [f"{token} k []", "through"]
    assert process.stderr.splitlines()[0] == "problem"
    assert told(process.stderr)["token"] == token
    with closing(sqlite3.connect(shop.url.removeprefix("sqlite:///"))) as connection:
        assert "s3cr3t" not in "\n".join(connection.iterdump())


def test_the_next_period_does_not_begin_beside_the_last(sqlite_shop: Shop) -> None:
    """A22: a command of each minute whose work takes longer; the period is left for later."""
    shop = sqlite_shop
    next_one = (*_command("once", "mail", "--url", shop.url, "--per", "hour"), "--json", "--")
    outer = shop.finished("once", "mail", "--per", "day", "--json", "--", *next_one, *APPEND)
    inner = json.loads(outer[2].splitlines()[-2])
    after = shop.finished("once", "mail", "--per", "hour", "--json", "--", *APPEND)

    assert (inner["ran"], inner["busy"], inner["exit"]) == (False, True, 0)
    assert "lock 'mail' is taken" in inner["why"]
    assert (told(outer[2])["ran"], told(after[2])["ran"]) == (True, True)
    assert effects(shop) == 1


def test_without_period_or_key_only_overlap_is_excluded(sqlite_shop: Shop) -> None:
    """A22: the second is skipped while the first runs, and not afterwards."""
    shop = sqlite_shop
    wait = "echo ran >>effects; echo begun; cat >/dev/null"
    first = subprocess.Popen(
        [*_command("once", "mail", "--"), "sh", "-c", wait],
        cwd=shop.directory,
        env={**_environ(), **shop.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert first.stdout is not None
    assert first.stdout.readline() == b"begun\n"
    beside = shop.finished("once", "mail", "--json", "--busy-exit", "9", "--", *APPEND)
    first.communicate(timeout=30)
    after = shop.finished("once", "mail", "--json", "--", *APPEND)

    assert (beside[0], told(beside[2])["ran"], told(beside[2])["busy"]) == (9, False, True)
    assert "lock 'mail' is taken" in told(beside[2])["why"]
    assert (first.returncode, after[0], after[1]) == (0, 0, "\n")
    assert told(after[2])["token"] > 1
    assert effects(shop) == 2


def test_without_its_store_nothing_is_run_and_the_exit_code_says_so(tmp_path: Path) -> None:
    shop = Shop(None, "postgresql://postgres@127.0.0.1:1/none", "onejob", tmp_path)  # type: ignore[arg-type]
    code, out, err = shop.finished("once", "mail", "--per", "day", "--json", "--", *APPEND)
    absent = Shop(None, f"sqlite:///{tmp_path}/none.db", "onejob", tmp_path)  # type: ignore[arg-type]
    without_tables = absent.finished("once", "mail", "--per", "day", "--", *APPEND)

    assert (code, out, effects(shop)) == (69, "", 0)
    assert "cannot reach the store" in err.splitlines()[0]
    assert told(err)["ran"] is False
    assert (without_tables[0], effects(shop)) == (69, 0)
    assert "onejob init" in without_tables[2]


def test_what_can_not_be_right_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    """P8: no store is there to be asked."""
    shop = Shop(None, "postgresql://postgres@127.0.0.1:1/none", "onejob", tmp_path)  # type: ignore[arg-type]
    for arguments, said in (
        (("mail", "--per", "day", "--key", "k"), "Give one of them"),
        (("mail", "--tz", "UTC"), "Give --per"),
        (("mail", "--per", "fortnight"), "names no period"),
        (("mail", "--per", "day", "--tz", "Mars"), "not a known time zone"),
        (("mail", "--key", ""), "--key '' is blank"),
        ((" mail", "--key", "k"), "space around it"),
        (("mail", "--ttl", "10ms"), "shorter than 1s"),
        (("mail", "--grace", "soon"), "not a duration"),
        (("mail", "--skipped-exit", "300"), "0<=x<=255"),
    ):
        result = shop.invoke("once", *arguments, "--", *APPEND)

        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert said in result.stderr
    assert "Missing argument" in shop.invoke("once", "mail").stderr


def test_where_onejob_is_disabled_nothing_is_run(tmp_path: Path) -> None:
    shop = Shop(None, "postgresql://postgres@127.0.0.1:1/none", "onejob", tmp_path)  # type: ignore[arg-type]

    result = shop.invoke(
        "once", "mail", "--per", "day", "--skipped-exit", "3", "--", *APPEND, ONEJOB_DISABLED="1"
    )

    assert (result.exit_code, result.stdout, effects(shop)) == (3, "", 0)


def test_a_file_of_its_own_in_each_of_many_instances_is_refused(tmp_path: Path) -> None:
    """A04: each would win its own file's claim."""
    shop = Shop(None, f"sqlite:///{tmp_path}/own.db", "onejob", tmp_path)  # type: ignore[arg-type]
    assert shop.invoke("init").exit_code == 0
    arguments = ("once", "mail", "--key", "k", "--", *APPEND)
    started = subprocess.run(
        _command(*arguments),
        env={**_environ(), **shop.environment, "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (started.returncode, effects(shop)) == (2, 0)
    assert "--single-machine" in started.stderr


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from onejob.cli import main; main()", *arguments]


def _environ() -> dict[str, str]:
    return dict(os.environ)


def test_why_tells_who_ran_it_and_who_lost(sqlite_shop: Shop) -> None:
    """A06, P7"""
    shop = sqlite_shop
    shop.finished("once", "mail", "--key", "2026-11-29T02:00:00Z", "--", "false")
    shop.finished("once", "mail", "--key", "2026-11-29T02:00:00Z", "--", "true")
    shop.finished("once", "mail", "--key", "2026-11-29T02:00:00Z", "--", "true")

    told = shop.json("why", "mail", "2026-11-29T03:00:00+01:00")
    text = shop.invoke("why", "mail").stdout

    assert (told["job"], told["key"]) == ("mail", "2026-11-29T02:00:00Z")
    assert [event["kind"] for event in told["events"]] == [
        "period.released",
        "period.claimed",
        "period.lost",
        "period.done",
    ]
    assert "gave it back: exit 1." in text
    assert "Nothing was done there." in text
    assert text.startswith("mail 2026-11-29T02:00:00Z: done by ")
    assert shop.invoke("why", "nobody").exit_code == 1


def test_it_runs_without_any_stream_as_some_daemons_start_it(sqlite_shop: Shop) -> None:
    """The pipe to the second process must not take the place of an output."""
    shop = sqlite_shop
    program = (
        "sh",
        "-c",
        "echo lost && echo lost >&2 && echo ran >>effects; read nothing || exit 4",
    )
    ran = subprocess.run(
        [
            "sh",
            "-c",
            'exec "$@" <&- >&- 2>&-',
            "sh",
            *_command("once", "mail", "--key", "k", "--json", "--", *program),
        ],
        cwd=shop.directory,
        env={**_environ(), **shop.environment},
        timeout=30,
    )

    assert (ran.returncode, effects(shop), row(shop, "k").error) == (4, 1, "exit 4")


def test_redis_alone_is_enough_for_it(redis_url: str, redis_schema: str, tmp_path: Path) -> None:
    """For who has no database: periods, and the story of each, are kept there too."""
    shop = Shop(None, redis_url, redis_schema, tmp_path)  # type: ignore[arg-type]
    shop.invoke("init")
    first = shop.finished("once", "mail", "--key", "k", "--", *APPEND)
    second = shop.finished("once", "mail", "--key", "k", "--", *APPEND)

    assert (first[:2], second[:2]) == ((0, "k\n"), (0, "")), (first, second)
    assert effects(shop) == 1
    assert "came too" in shop.invoke("why", "mail").stdout
