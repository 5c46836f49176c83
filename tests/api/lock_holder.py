"""A process that holds a lock, and does what it is told on stdin; each answer is one line."""

from __future__ import annotations

import sys
from collections.abc import Callable

import onejob
from onejob import App, Lease

RESOURCE = "ledger-export"


def main(url: str, schema: str, ttl: str) -> None:
    app = App(url, schema=schema, name="shop")
    try:
        with app.lock("nightly", ttl=ttl, protects=RESOURCE) as lease:
            say(lease.token)
            for line in sys.stdin:
                if line.strip() == "leave":
                    break
                say(DEEDS[line.strip()](app, lease))
    except onejob.LeaseLost:
        say("lost at the end")
    else:
        say("released")


def check(app: App, lease: Lease) -> str:
    try:
        lease.check()
    except onejob.LeaseLost:
        return "lost"
    return "held"


def write(app: App, lease: Lease) -> str:
    """Write under the lease's own fence."""
    try:
        with lease.transaction() as connection:
            connection.execute("INSERT INTO sold (who) VALUES ('fenced')")
    except onejob.LeaseLost:
        return "refused"
    return "written"


def write_at_the_resource(app: App, lease: Lease) -> str:
    """Write in a transaction of its own, which asks for nothing but the token."""
    try:
        with app.store.transaction(longest=9_000_000) as connection:  # type: ignore[arg-type]
            app.fence(RESOURCE, lease.token, within=connection)
            connection.execute("INSERT INTO sold (who) VALUES ('token')")
    except onejob.StaleToken as error:
        return f"stale {error.mine} {error.current}"
    return "written"


def sit_in_a_transaction(app: App, lease: Lease) -> str:
    """Begin to write, and wait for one more line before the end."""
    try:
        with lease.transaction() as connection:
            connection.execute("INSERT INTO sold (who) VALUES ('sat')")
            say("sitting")
            sys.stdin.readline()
    except onejob.OnejobError as error:
        return error.code
    return "written"


DEEDS: dict[str, Callable[[App, Lease], str]] = {
    "check": check,
    "write": write,
    "token": write_at_the_resource,
    "sit": sit_in_a_transaction,
}


def say(what: object) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
