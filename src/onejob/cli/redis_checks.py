"""What ``onejob doctor`` finds about a Redis server, decided from what it told. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onejob.cli.checks import Check

#: A replica further behind than this, in bytes, would lose many locks at a failover.
BEHIND_MOST = 1_000_000


def persistence(told: Mapping[str, Any]) -> Check:
    """Judge what a restart forgets."""
    if told.get("aof_enabled"):
        if told.get("aof_last_write_status", "ok") != "ok":
            return Check("persistence", False, "appendonly is on, and its last write failed")
        return Check("persistence", True, "appendonly is on: a restart forgets a second at most")
    return Check(
        "persistence",
        False,
        "appendonly is off: a restart forgets every lock that is held and every period that is "
        "done. Tokens rise all the same. Set appendonly yes.",
    )


def eviction(told: Mapping[str, Any]) -> Check:
    """Judge whether a lock may vanish while it is held, because memory is short."""
    policy = str(told.get("maxmemory_policy", "noeviction"))
    if not told.get("maxmemory") or policy == "noeviction":
        return Check("eviction", True, "none: no key goes before its time")
    return Check(
        "eviction",
        False,
        f"maxmemory-policy {policy} may drop a lock while it is held. Use noeviction, or another "
        "server for onejob.",
    )


def replication(told: Mapping[str, Any]) -> Check:
    """Judge what a failover may lose."""
    replicas = [value for name, value in told.items() if _is_replica(name, value)]
    if told.get("role") == "slave":
        return Check("replication", False, "this is a replica: it takes no locks. Name its master.")
    if not replicas:
        return Check("replication", True, "no replicas, so no failover")
    offset = int(told.get("master_repl_offset", 0))
    behind = max(offset - int(replica.get("offset", 0)) for replica in replicas)
    detail = (
        f"{len(replicas)} replicas, up to {behind:,} bytes behind: a failover may lose that much. "
        "With ?wait=1 in the URL a lock counts once a replica has it."
    )
    return Check("replication", behind <= BEHIND_MOST, detail)


def _is_replica(name: str, value: object) -> bool:
    return name.startswith("slave") and name[5:].isdigit() and isinstance(value, Mapping)
