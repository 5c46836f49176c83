"""What ``onejob doctor`` finds about a MariaDB or MySQL server, from its settings. No I/O here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onejob.cli.checks import Check

#: The settings that are looked at; a server has those of its kind.
ASKED = (
    "version",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "sync_binlog",
    "binlog_format",
    "read_only",
)

#: From these on, rows that are locked can be skipped, and JSON read as a table.
OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}


def release(told: Mapping[str, str]) -> Check:
    """Judge whether the server is new enough."""
    version = told.get("version", "")
    kind = "MariaDB" if "MariaDB" in version else "MySQL"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers >= OLDEST[kind]:
        return Check("server", True, f"{kind} {version}")
    oldest = ".".join(map(str, OLDEST[kind]))
    return Check("server", False, f"{kind} {version} is older than {oldest}, which onejob needs")


def durability(told: Mapping[str, str]) -> Check:
    """Judge what a crash of the server forgets."""
    name = "innodb_flush_log_at_trx_commit"
    if told.get(name, "1") == "1":
        return Check("durability", True, "each commit is on disk before it is answered")
    return Check(
        "durability",
        False,
        f"{name} is {told[name]}: a crash forgets up to a second of locks taken and periods done. "
        f"Set it to 1.",
    )


def writing(told: Mapping[str, str]) -> Check:
    """Judge whether this server takes writes."""
    if told.get("read_only", "OFF").upper() in ("OFF", "0"):
        return Check("writes", True, "this server takes writes")
    return Check("writes", False, "read_only is on: it takes no locks. Name the primary server.")


def replication(told: Mapping[str, str]) -> Check:
    """Judge what a failover may lose, and whether READ COMMITTED can be written to the log."""
    if told.get("log_bin", "OFF").upper() in ("OFF", "0"):
        return Check("replication", True, "no binary log, so no replicas")
    if told.get("binlog_format", "ROW").upper() == "STATEMENT":
        return Check(
            "replication",
            False,
            "binlog_format is STATEMENT, which refuses READ COMMITTED. Set it to ROW or MIXED.",
        )
    detail = "replicas follow later: a failover may lose the last locks and claims. Tokens go on "
    return Check("replication", True, detail + "rising, by the clock.")
