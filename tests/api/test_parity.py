"""Twins: what one colour can do the other can, under the same parameters."""

from __future__ import annotations

import inspect

import pytest

from onejob import App, AsyncLease, AsyncRun, Job, Lease, Run
from onejob.effects import Effects
from onejob.job import Using
from onejob.locks import Locks
from onejob.outside import Outside
from onejob.queue import Runs
from onejob.schedules import Schedules

#: ``await`` is a word of the language, so the twin of ``wait`` has another name.
ASYNC_NAMES = {"wait": "await_"}


def public(cls: type) -> dict[str, object]:
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", [Runs, Schedules, Effects, Locks, Outside, Using])
def test_every_sync_method_has_an_async_twin_with_its_parameters(cls: type) -> None:
    methods = {name: method for name, method in public(cls).items() if inspect.isfunction(method)}
    sync = {name for name, method in methods.items() if not inspect.iscoroutinefunction(method)}
    twins = {ASYNC_NAMES.get(name, f"a{name}") for name in sync}

    assert twins == set(methods) - sync
    for name in sync:
        one, other = methods[name], methods[ASYNC_NAMES.get(name, f"a{name}")]
        assert parameters(one) == parameters(other), name


def test_a_job_enqueues_in_both_colours() -> None:
    for name in ("enqueue", "enqueue_many"):
        assert parameters(getattr(Job, name)) == parameters(getattr(Job, f"a{name}"))


def test_run_and_async_run_have_the_same_methods_and_parameters() -> None:
    run, arun = public(Run), public(AsyncRun)

    assert set(run) == set(arun)
    for name, method in run.items():
        if inspect.isfunction(method):
            assert parameters(method) == parameters(arun[name]), name


def test_lease_and_async_lease_have_the_same_methods_and_parameters() -> None:
    lease, alease = public(Lease), public(AsyncLease)

    assert set(lease) == set(alease)
    for name, method in lease.items():
        if inspect.isfunction(method):
            assert parameters(method) == parameters(alease[name]), name


def test_what_asks_the_store_is_awaited_in_an_async_run() -> None:
    for name in ("progress", "fence", "first", "effect", "transact"):
        assert inspect.iscoroutinefunction(getattr(AsyncRun, name)), name
    assert hasattr(App, "acheck")


def parameters(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    return [
        (name, parameter.kind, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    ]
