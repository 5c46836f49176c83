"""The App of a Django project: over the database of an alias, kept out of where it has no place.

Like any App it opens nothing when it is built. Where its store is, it asks when it opens it: tests
give an alias another database after ``jobs.py`` was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core import mail, management

from onejob import url as urls
from onejob.app import App
from onejob.commands.runs import NewRun
from onejob.django import configuration
from onejob.django.inside import InsideStore
from onejob.django.place import in_memory, place_of, settings_of
from onejob.django.services import DjangoServices
from onejob.errors import SchemaMismatch
from onejob.opening import open_store, say
from onejob.queue import Enqueued, enqueue
from onejob.services import Services
from onejob.steps import carry

#: What makes the tables of an alias.
_MIGRATE = "python manage.py migrate"

#: Commands of Django's own that serve requests.
_SERVES = {"runserver", "testserver"}


class DjangoApp(App):
    """Jobs and schedules of a Django project, as ``settings.ONEJOB`` says. See ``App``."""

    def __init__(self) -> None:
        self.configuration = configuration.read()
        self.alias = self.configuration.alias
        self._inside = False
        self._opened_at: tuple[object, ...] = ()
        #: Queues that tasks may be sent to besides those of the jobs: see ``onejob.django.tasks``.
        self.task_queues: set[str] = set()
        self._services_kind = DjangoServices
        # With an alias, ``_url`` below is asked instead, each time.
        url = "memory://" if self.alias else self.configuration.url
        super().__init__(url, **self.configuration.of_app)
        if self.alias:
            settings_of(self.alias)  # refused now where there is none

    @property
    def _url(self) -> urls.Url:
        """Where the store is, asked anew each time where an alias says it."""
        return place_of(self.alias) if self.alias else self._given

    @_url.setter
    def _url(self, url: urls.Url) -> None:
        self._given = url

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Send everything over Django's connection of this thread while the block lasts: tests."""
        before, self._inside = self._inside, bool(self.alias)
        try:
            yield
        finally:
            self._inside = before

    def check(self) -> None:
        """Ask the store whether it is there and has the right tables; see ``App.check``."""
        try:
            if isinstance(store := self.store, InsideStore):
                store.check()
            else:
                super().check()
        except SchemaMismatch as error:
            if not self.alias:
                raise
            raise SchemaMismatch(
                error.where, found=error.found, wanted=error.wanted, init=_MIGRATE
            ) from error

    def send(self, run: NewRun) -> Enqueued:
        """Make one run, where the caller is: in the atomic block that is open, if any."""
        services = self._services()
        [answer] = carry(enqueue([run]), services.here())
        services.wake()
        return answer

    def queue_names(self) -> set[str]:
        """Return the queues of jobs and of tasks, and the default one."""
        return super().queue_names() | self.task_queues

    def _goes_inside(self) -> bool:
        """Tell whether nothing but Django's connections may be used.

        So it is in every test: a connection of ours would see nothing of a test's transaction, and
        keep the test's database from being dropped.
        """
        return bool(self.alias) and (self._inside or _in_a_test() or in_memory(self.alias))

    def _open_store(self) -> Any:
        outer = open_store(self._url, self.schema)
        return InsideStore(outer, self.alias) if self._goes_inside() else outer  # type: ignore[arg-type]

    def _services(self) -> Services:
        with self._lock:
            if self.alias:
                given = settings_of(self.alias)
                now = (given["NAME"], given["HOST"], given["PORT"], self._goes_inside())
                if self._opened is not None and now != self._opened_at:
                    moved, self._opened = self._opened, None
                    moved.close()
                self._opened_at = now
            services = super()._services()
            if isinstance(services, DjangoServices) and services is self._opened:
                services.belong(self.alias)
            return services

    def _disabled(self) -> bool:
        """Start nothing in a test, and in none of Django's commands that do not serve."""
        if _in_a_test():
            say("onejob: this is a test: no replica is started.")
            return True
        command = _management_command(sys.argv)
        if command and command in _own_commands() - _SERVES:
            say(f"onejob: no replica is started by manage.py {command}.")
            return True
        return super()._disabled()


def _in_a_test() -> bool:
    return hasattr(mail, "outbox")  # a test environment sets it up, whoever runs the tests


def _management_command(argv: list[str]) -> str:
    """Return the command of ``manage.py COMMAND``, "" for a program of another kind."""
    name = Path(argv[0]).name if argv else ""
    manages = name in ("manage.py", "django-admin", "django-admin.py", "django-admin.exe")
    manages = manages or (name == "__main__.py" and Path(argv[0]).parent.name == "django")
    return argv[1] if manages and len(argv) > 1 else ""


def _own_commands() -> set[str]:
    folder = Path(management.__file__).parent
    return {*management.find_commands(str(folder)), "shell_plus"}
