from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from onejob import App, UsageError
from onejob.url import parse

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql://localhost/shop", "localhost/shop"),
        ("postgres://u:pw@db.example:5433/shop", "db.example:5433/shop"),
        ("postgresql://u:pw@[::1]:5432/shop", "[::1]:5432/shop"),
        ("postgresql://a:1,b:2/shop?target_session_attrs=read-write", "a:1,b:2/shop"),
        ("postgresql:///shop?host=/var/run/postgresql", "/var/run/postgresql/shop"),
        ("postgresql:///shop", "the local socket/shop"),
        ("memory://", "memory"),
    ],
)
def test_a_url_shows_host_and_database_only(url: str, where: str) -> None:
    assert parse(url).where == where


def test_a_relative_sqlite_file_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse("sqlite:///jobs.db").target == str(tmp_path / "jobs.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jobs.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/file.db",
        "sqlite:///jobs.db?mode=ro",
        "sqlite:///folder/",
        "memory://name",
        "http://localhost/shop",
        "postgresql+psycopg://localhost/shop",
        "postgresql://host:port/shop",
        "postgresql://host/shop#fragment",
        "postgresql://host/shop?sslmode",
        "postgresql://host name/shop",
        "postgresql://[::1/shop",
        "postgresql://host/postgresql%3A%2F%2Fother",
        None.__class__,
        b"sqlite:///jobs.db",
        7,
    ],
)
def test_a_url_that_cannot_be_right_is_refused(url: object) -> None:
    with pytest.raises(UsageError):
        parse(url)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_mariadb_and_mysql_are_one_kind_and_show_host_and_database(scheme: str) -> None:
    url = parse(f"{scheme}://u:{SECRET}@db.example:3307/shop?ssl_ca=/etc/ca.pem")

    assert (url.dialect, url.where) == ("mariadb", "db.example:3307/shop")
    assert SECRET not in repr(url)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("u@localhost", "names no database"),
        ("u@localhost/", "names no database"),
        ("u@a,b/shop", "names one server"),
        ("u@localhost:port/shop", "can be read"),
        ("u:p#x@localhost/shop", "can be read"),
    ],
)
def test_a_mariadb_url_that_cannot_be_right_says_why(rest: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(f"mariadb://{rest}")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@localhost/shop",
        f"postgresql://u:{SECRET[:3]}%{ord(SECRET[3]):x}{SECRET[4:]}@localhost/shop",
        f"postgresql://localhost/shop?user=u&password={SECRET}",
        f"postgresql://localhost/shop?options=-c%20app.key%3D{SECRET}",
        f"postgresql://u:{SECRET}/x@localhost/shop",
        f"postgresql://u:{SECRET}#x@localhost/shop",
        f"postgresql://u:{SECRET}?x@localhost/shop",
        f"postgresql://u:{SECRET}%zz@localhost/shop",
        f"postgresql://u:{SECRET} x@localhost/shop",
        f"postgresql://localhost/shop?{SECRET}",
        f"postgresql://u@localhost/dbname=x%20password={SECRET}",
        f"mysql://u:{SECRET}@localhost/shop",
        f"nothing://u:{SECRET}@localhost/shop",
    ],
)
def test_no_secret_is_shown(url: str) -> None:
    """G04: wherever the password stands, and whatever else is wrong with the URL."""
    shown = ""
    try:
        app = App(url)
        shown += repr(app) + str(app.status()) + repr(app._services())
        app.check()
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not tell
        # As a log shows it. The first frame is this test's own line and source.
        shown += "".join(traceback.format_exception(error, limit=-6))
        shown += repr(error) + repr(error.__cause__)

    assert shown
    assert SECRET not in shown


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEJOB_URL", f"postgresql://u:{SECRET}@db/shop")

    assert repr(App(name="web")) == "<App web at db/shop>"
