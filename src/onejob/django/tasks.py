"""onejob behind Django's task framework: ``django.tasks`` (Django 6), or ``django-tasks``.

    TASKS = {"default": {"BACKEND": "onejob.django.tasks.OnejobBackend"}}

A task becomes a job of the project's App, named by its module and function, as soon as it is
defined; what the store names is looked up among these and never imported. So a worker must have
imported the modules that define tasks: ``tasks.py`` of each installed app is, and OPTIONS may name
more, ``{"modules": ["shop.reports"]}``. A task is enqueued as a row: in an atomic block it is part
of that transaction. It is tried once, as Django has it; a run whose replica died is tried again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any, Final
from uuid import uuid4

import django
from asgiref.sync import sync_to_async
from django.utils import timezone

from onejob.commands import views
from onejob.commands.runs import NewRun
from onejob.commands.views import CallView, EventView
from onejob.core.payload import fingerprint
from onejob.core.retry import Retry
from onejob.core.run import error_text
from onejob.core.time import Instant, instant, moment
from onejob.job import Job
from onejob.queue import RunInfo
from onejob.run import AsyncRun, Run, current_run

if django.VERSION >= (6,):
    from django.tasks import TaskContext, TaskResultStatus, base
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import (
        task_enqueued,
        task_finished,
        task_started,
    )
else:
    from django_tasks import TaskContext, TaskResultStatus, base
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

#: Their priorities go from -100 to 100, the urgent ones last; ours from 0, first, to 9.
_MIDDLE: Final = 5

_STATUS: Final = {
    "running": TaskResultStatus.RUNNING,
    "unknown": TaskResultStatus.RUNNING,  # not over: somebody has to say what happened
    "succeeded": TaskResultStatus.SUCCESSFUL,
}


class OnejobBackend(BaseTaskBackend):
    """Tasks as runs of the project's App."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        from onejob.django import app

        super().__init__(alias, params)
        self._app = app
        self._tasks: dict[str, Any] = {}
        app.task_queues |= self.queues

    def validate_task(self, task: Any) -> None:
        """Refuse what their rules refuse; the others are known here from now on."""
        super().validate_task(task)
        name = task.module_path
        self._tasks.setdefault(name, task)
        if name not in self._app.jobs:
            options = {"name": name, "queue": task.queue_name, "retry": Retry(attempts=1)}
            self._app.job(**options)(self._performer(task))

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make a run of the task, in the atomic block that is open here, if any."""
        self.validate_task(task)
        call = {
            "args": base.normalize_json(list(args)),
            "kwargs": base.normalize_json(dict(kwargs)),
            "task": {
                "priority": task.priority,
                "queue_name": task.queue_name,
                "run_after": task.run_after.isoformat() if task.run_after else None,
                "takes_context": task.takes_context,
                "backend": task.backend,
            },
        }
        job: Job[..., ..., Any] = self._app.jobs[task.module_path]
        text = job.signature.encode({"call": call})
        run = NewRun(
            job=job.name,
            key=uuid4().hex,
            args=text,
            queue=task.queue_name,
            priority=step(task.priority),
            at=None if task.run_after is None else instant(_aware(task.run_after), what="at"),
            on_loss=job.options.on_replica_loss,
            fingerprint=fingerprint(text),
        )
        result = self.get_result(str(self._app.send(run).run_id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Read what became of a run. Raises TaskResultDoesNotExist."""
        if not (isinstance(result_id, str) and result_id.isdecimal() and int(result_id) < 2**63):
            raise TaskResultDoesNotExist(result_id)
        id = int(result_id)
        here = self._app._services().here()
        run = self._app.runs.get(id)
        call: CallView | None = here(views.call(id))
        if run is None or call is None or run.job not in self._tasks:
            raise TaskResultDoesNotExist(result_id)
        events: tuple[EventView, ...] = here(views.events(run_id=id)) if run.attempt > 1 else ()
        return self._result(run, call, events)

    def _result(self, run: RunInfo, call: CallView, events: Sequence[EventView]) -> Any:
        asked = json.loads(call.args)["call"]
        meant = dict(asked["task"])
        if meant["run_after"] is not None:
            meant["run_after"] = datetime.fromisoformat(meant["run_after"])
        status = _STATUS.get(run.outcome or run.state)
        if status is None:
            status = TaskResultStatus.FAILED if run.ended else TaskResultStatus.READY
        found = base.TaskResult(
            task=type(self._tasks[run.job])(func=self._tasks[run.job].func, **meant),
            id=str(run.id),
            status=status,
            enqueued_at=moment(Instant(call.created)),
            started_at=run.started,
            last_attempted_at=run.started,
            finished_at=run.ended,
            args=asked["args"],
            kwargs=asked["kwargs"],
            backend=self.alias,
            errors=[_error(run.error)] if run.error and status == TaskResultStatus.FAILED else [],
            worker_ids=_workers(run, events),
        )
        object.__setattr__(found, "_return_value", run.result)
        return found

    def _performer(self, task: Any) -> Callable[..., Any]:
        """Return the job's function: the task called with what its run was given."""
        if iscoroutinefunction(task.func):

            async def awaited(run: AsyncRun, call: dict[str, Any]) -> Any:
                begun = await sync_to_async(self._begun)()
                try:
                    value = await task.func(*_arguments(begun, call), **call["kwargs"])
                    value = base.normalize_json(value)
                except Exception as error:
                    await sync_to_async(self._ended)(begun, error=error)
                    raise failure(error) from error
                await sync_to_async(self._ended)(begun, value)
                return value

            return awaited

        def called(run: Run, call: dict[str, Any]) -> Any:
            begun = self._begun()
            try:
                value = task.func(*_arguments(begun, call), **call["kwargs"])
                value = base.normalize_json(value)
            except Exception as error:
                self._ended(begun, error=error)
                raise failure(error) from error
            self._ended(begun, value)
            return value

        return called

    def _begun(self) -> Any:
        result = self.get_result(str(current_run().id))
        task_started.send(sender=type(self), task_result=result)
        return result

    def _ended(self, result: Any, value: Any = None, *, error: Exception | None = None) -> None:
        """Tell who listens that the function has ended; the store hears of it right after."""
        status = TaskResultStatus.SUCCESSFUL if error is None else TaskResultStatus.FAILED
        for name, known in (
            ("status", status),
            ("finished_at", timezone.now()),
            ("_return_value", value),
            ("errors", [] if error is None else [_error(error_text(failure(error)))]),
        ):
            object.__setattr__(result, name, known)
        task_finished.send(sender=type(self), task_result=result)


def step(priority: int) -> int:
    """Return which of our ten steps a priority of theirs is: 100 is 0, 0 is 5, -100 is 9."""
    if priority > 0:
        return _MIDDLE - 1 - (priority - 1) * _MIDDLE // 100
    return _MIDDLE + -(priority * (9 - _MIDDLE) // 100)


class TaskFailed(Exception):
    """What a task raised, under its full name, with its traceback: how the store keeps it."""


def failure(error: Exception) -> Exception:
    """Return an error whose text tells class, message and traceback apart for ``_error``."""
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    text = "".join(traceback.format_exception(error))
    named: type[Exception] = type(path, (TaskFailed,), {})
    return named(f"{error}\n\n{text}")


def _error(text: str) -> Any:
    path, _, rest = text.partition(": ")
    if "." not in path:
        path = f"builtins.{path}"  # of ours, not the task's: a timeout, a death
    return base.TaskError(exception_class_path=path, traceback=rest.partition("\n\n")[2] or text)


def _arguments(begun: Any, call: Mapping[str, Any]) -> list[Any]:
    args: list[Any] = call["args"]
    return [TaskContext(task_result=begun), *args] if begun.task.takes_context else args


def _workers(run: RunInfo, events: Sequence[EventView]) -> list[str]:
    """Return who tried, one for each attempt: the latest last, "" where it is not told any more."""
    earlier = [event.replica for event in events if event.token and event.replica]
    known = [one for one in dict.fromkeys(earlier) if one != run.replica][: max(0, run.attempt - 1)]
    latest = [run.replica or ""] if run.attempt else []
    return [*([""] * (run.attempt - len(known) - len(latest))), *known, *latest]


def _aware(at: datetime) -> datetime:
    return at if timezone.is_aware(at) else timezone.make_aware(at)
