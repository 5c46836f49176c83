"""What onejob does in a Django project; run by ``manage.py test``, on each kind of database."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from io import StringIO
from unittest.mock import patch

import django
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.signals import request_started
from django.db import connections, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from shelf import tasks
from shelf.jobs import abuy, buy, charge, write
from shelf.models import Book

from onejob import EffectUnknown, SchemaMismatch, UsageError
from onejob import url as urls
from onejob.django import app, application, apps, place
from onejob.django.application import DjangoApp
from onejob.django.models import Effect, Run
from onejob.django.testing import enqueued, perform
from onejob.opening import open_store

if django.VERSION >= (6,):
    from django.tasks import TaskResultStatus, default_task_backend
    from django.tasks.exceptions import (
        InvalidTask as InvalidTaskError,
    )
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    from django_tasks import TaskResultStatus, default_task_backend
    from django_tasks.exceptions import (
        InvalidTaskError,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django_tasks.signals import task_enqueued, task_finished, task_started

ALIAS = app.alias


class Case(TestCase):
    databases = "__all__"


def tables() -> set[str]:
    """Return the names of what onejob has in its database."""
    with connections[ALIAS].cursor() as cursor:
        if connections[ALIAS].vendor == "postgresql":
            cursor.execute(
                "SELECT relname FROM pg_class"
                " WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'v', 'S')",
                [app.schema],
            )
            return {name for (name,) in cursor.fetchall()}
        cursor.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        mine = f"{app.schema}_"
        return {name.removeprefix(mine) for (name,) in cursor if name.startswith(mine)}


class NoOnejob:
    """A router that keeps onejob's tables out of every database."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        return False if app_label == "onejob" else None


class Schema(TransactionTestCase):
    databases = "__all__"

    def migrate(self, *target: str) -> None:
        call_command("migrate", "onejob", *target, database=ALIAS, verbosity=0)

    def test_it_is_shown_and_no_migration_is_missing(self) -> None:
        out = StringIO()
        call_command("sqlmigrate", "onejob", "schema_0001", database=ALIAS, stdout=out)
        call_command("makemigrations", "onejob", check_changes=True, dry_run=True, verbosity=0)

        self.assertIn("CREATE TABLE", out.getvalue())
        self.assertIn("migration (version) VALUES (1)", out.getvalue())

    def test_it_goes_and_comes_back_whoever_made_it(self) -> None:
        before = tables()
        self.assertIn("run", before)
        self.migrate("zero")
        self.assertEqual(tables(), set())
        with self.assertRaisesMessage(SchemaMismatch, "manage.py migrate"):
            app.check()
        with self.assertRaises(SystemExit) as end, redirect_stderr(StringIO()) as said:
            call_command("onejob", "runs")
        self.assertEqual(end.exception.code, 3)
        self.assertIn("manage.py migrate", said.getvalue())
        if not place.in_memory(ALIAS):
            # By ``onejob init``, over a connection of its own.
            outside = open_store(app._url, app.schema)
            outside.init()
            outside.close()

        self.migrate()

        self.assertEqual(tables(), before)
        with redirect_stdout(StringIO()) as said, self.assertRaises(SystemExit) as end:
            call_command("onejob", "trigger", "buy", "--json", "--args", '{"title": "Emma"}')
        self.assertEqual(end.exception.code, 0)
        self.assertEqual(json.loads(said.getvalue())["job"], "buy")

    def test_other_aliases_and_routers_that_say_no_keep_it_out(self) -> None:
        for alias in set(connections) - {ALIAS}:
            with connections[alias].cursor() as cursor:
                names = connections[alias].introspection.table_names(cursor)
            self.assertEqual([name for name in names if name.startswith(app.schema)], [])
        self.migrate("zero")

        with override_settings(DATABASE_ROUTERS=["checks.NoOnejob"]):
            self.migrate()
        self.assertEqual(tables(), set())

        self.migrate("zero")
        self.migrate()

    def test_outside_a_block_a_run_is_its_own_commit(self) -> None:
        asked = buy.enqueue(title="Emma")

        self.assertFalse(connections[ALIAS].in_atomic_block)
        self.assertEqual(app.runs.get(asked.run_id).state, "scheduled")


class Settings(SimpleTestCase):
    def test_what_cannot_be_meant_is_refused_when_the_app_is_built(self) -> None:
        for given, words in (
            ({"DATABSE": "default"}, "Did you mean 'DATABASE'?"),
            ({"DATABASE": "nowhere"}, "is no alias in DATABASES"),
            ({"DATABASE": "default", "URL": "sqlite:///x.db"}, "both DATABASE and URL"),
            ({"LEASE": "soon"}, "lease"),
            ({"START": "yes"}, "True or False"),
            ({"MODULES": "jobs"}, "list of names"),
            ([], "must be a dict"),
        ):
            with override_settings(ONEJOB=given), self.assertRaisesMessage(UsageError, words):
                DjangoApp()

    def test_a_url_stands_for_a_store_outside_the_project(self) -> None:
        with override_settings(ONEJOB={"URL": "sqlite:////var/lib/jobs.db", "NAME": "shop"}):
            self.assertEqual(repr(DjangoApp()), "<App shop at /var/lib/jobs.db>")

    def test_a_database_is_found_by_what_its_settings_say_and_its_password_is_not_shown(
        self,
    ) -> None:
        given = {
            **connections[ALIAS].settings_dict,
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "shop/1",
            "USER": "ada@home",
            "PASSWORD": "p:/?#s",
            "HOST": "/run/postgresql",
            "PORT": "5433",
            "OPTIONS": {"sslmode": "require", "pool": True, "assume_role": "jobs"},
        }
        found = place.postgresql(given)

        self.assertEqual(
            found,
            "postgresql://ada%40home:p%3A%2F%3F%23s@/shop%2F1"
            "?host=%2Frun%2Fpostgresql&port=5433&sslmode=require&options=-c%20role%3Djobs",
        )
        self.assertNotIn("p:/", repr(urls.parse(found)))

    def test_a_web_process_starts_at_its_first_request_where_the_settings_say_so(self) -> None:
        request_started.connect(apps.start_here, dispatch_uid="onejob.start")

        with patch.object(app, "start") as start:
            self.client.get("/nowhere/")
            self.client.get("/nowhere/")

        start.assert_called_once_with()

    def test_nothing_starts_under_a_command_that_does_not_serve(self) -> None:
        for argv, command in (
            (["manage.py", "migrate"], "migrate"),
            (["/srv/manage.py", "shell"], "shell"),
            (["gunicorn", "wsgi"], ""),
            (["/srv/manage.py"], ""),
        ):
            self.assertEqual(application._management_command(argv), command)


class Enqueueing(Case):
    def test_a_run_is_a_row_of_the_open_transaction(self) -> None:
        with enqueued() as runs, self.assertRaises(ZeroDivisionError):
            with transaction.atomic(using=ALIAS):
                buy.enqueue(title="Emma")
                1 / 0  # noqa: B018

        self.assertEqual(list(runs), [])

    def test_a_savepoint_that_is_rolled_back_takes_its_runs_along(self) -> None:
        with enqueued() as runs, transaction.atomic(using=ALIAS):
            buy.using(key="kept").enqueue(title="Emma")
            try:
                with transaction.atomic(using=ALIAS):
                    buy.using(key="gone").enqueue(title="Emma")
                    raise LookupError
            except LookupError:
                pass

        self.assertEqual([run.key for run in runs], ["kept"])

    def test_a_known_key_makes_no_second_run(self) -> None:
        first = buy.using(key="a").enqueue(title="Emma")
        again = buy.using(key="a").enqueue(title="Emma")

        self.assertEqual((first.created, again.created), (True, False))
        self.assertEqual(first.run_id, again.run_id)

    def test_from_a_loop_it_is_a_row_of_the_same_transaction(self) -> None:
        async def work() -> int:
            return (await buy.aenqueue(title="Emma")).run_id

        with enqueued() as runs, transaction.atomic(using=ALIAS):
            made = async_to_sync(work)()

        self.assertEqual([run.id for run in runs], [made])

    def test_a_block_that_has_failed_is_refused_before_anything_is_sent(self) -> None:
        with self.assertRaisesMessage(UsageError, "failed already"):
            with transaction.atomic(using=ALIAS):
                transaction.set_rollback(True, using=ALIAS)
                buy.enqueue(title="Emma")

    def test_jobs_of_every_app_are_known_and_the_start_has_opened_nothing(self) -> None:
        self.assertIn("buy", app.jobs)
        self.assertFalse(app.status().running)

    def test_no_replica_starts_in_a_test(self) -> None:
        app.start()

        self.assertFalse(app.status().running)


class Performing(Case):
    def test_a_run_is_performed_in_the_transaction_of_the_test(self) -> None:
        with enqueued() as runs:
            buy.enqueue(title="Emma")
            abuy.enqueue(title="Persuasion")
            write.enqueue(title="unit")

        self.assertEqual(runs.args(0), {"title": "Emma"})
        ended = runs.perform()

        self.assertEqual([run.outcome for run in ended], ["succeeded"] * 3)
        self.assertEqual(ended[0].result, "Emma")
        titles = Book.objects.using(ALIAS).values_list("title", flat=True)
        self.assertEqual(sorted(titles), ["Emma", "Persuasion", "unit"])

    def test_an_effect_is_recorded_and_its_result_kept(self) -> None:
        charge.enqueue(number=1)

        [ended] = perform()

        self.assertEqual(ended.result, "receipt 1")

    def test_what_a_handler_raises_reaches_the_test(self) -> None:
        with patch.object(buy, "function", side_effect=LookupError("no such book")):
            asked = buy.enqueue(title="Emma")
            with self.assertRaisesMessage(LookupError, "no such book"):
                perform()

        self.assertEqual(app.runs.get(asked.run_id).outcome, "failed")

    def test_a_run_for_later_is_left_alone(self) -> None:
        asked = buy.using(delay="1h").enqueue(title="Emma")

        self.assertEqual(perform(), [])
        self.assertEqual(app.runs.get(asked.run_id).state, "scheduled")


class Admin(Case):
    def setUp(self) -> None:
        self.user = User.objects.create_user("ada", password="x", is_staff=True)
        self.client.force_login(self.user)

    def allow(self, *codenames: str) -> None:
        self.user.user_permissions.set(Permission.objects.filter(codename__in=codenames))

    def act(self, model: str, action: str, *pks: object) -> int:
        data = {"action": action, "_selected_action": [str(pk) for pk in pks]}
        return self.client.post(f"/admin/onejob/{model}/", data).status_code

    def test_pages_are_for_those_who_may_look(self) -> None:
        asked = buy.using(key="order-<7>").enqueue(title="secret")
        self.assertEqual(self.client.get("/admin/onejob/run/").status_code, 403)
        self.allow("view_run", "view_schedule", "view_effect")

        for page in ("run/", "schedule/", "effect/", f"run/{asked.run_id}/change/"):
            answer = self.client.get(f"/admin/onejob/{page}")
            self.assertEqual(answer.status_code, 200, page)
            self.assertNotContains(answer, "secret")
        self.assertContains(self.client.get("/admin/onejob/run/"), "order-&lt;7&gt;")
        self.assertEqual(self.client.get("/admin/onejob/run/add/").status_code, 403)

    def test_an_action_needs_its_own_permission(self) -> None:
        asked = buy.enqueue(title="Emma")
        self.allow("view_run")

        self.act("run", "cancel_runs", asked.run_id)
        self.assertEqual(app.runs.get(asked.run_id).state, "scheduled")

        self.allow("view_run", "cancel_run", "retry_run")
        self.act("run", "cancel_runs", asked.run_id)
        self.assertEqual(app.runs.get(asked.run_id).outcome, "cancelled")
        self.act("run", "retry_runs", asked.run_id)
        self.assertEqual(app.runs.get(asked.run_id).state, "scheduled")

    def test_a_schedule_is_paused_and_an_unknown_effect_is_settled(self) -> None:
        app.schedules.put("hourly", job=buy, every="1h", args={"title": "Emma"})
        self.allow("view_schedule", "pause_schedule", "view_effect", "resolve_effect")
        with app.inside(), self.assertRaises(EffectUnknown):
            app.effect("pay", "7", self.lost)
        [token] = self.claimed()

        self.act("schedule", "pause_schedules", "hourly")
        self.assertTrue(app.schedules.get("hourly").paused)
        self.act("schedule", "resume_schedules", "hourly")
        self.assertFalse(app.schedules.get("hourly").paused)
        self.act("effect", "resolve_done", token)
        self.assertEqual(app.effects.get("pay", "7").state, "done")

    def claimed(self) -> list[int]:
        return list(Effect.objects.using(ALIAS).values_list("token", flat=True))

    @staticmethod
    def lost() -> None:
        raise LookupError("the reply never came")

    def test_the_views_can_be_asked_as_models(self) -> None:
        buy.using(key="k").enqueue(title="Emma")

        run = Run.objects.using(ALIAS).get(key="k")

        self.assertEqual((run.job, run.state, str(run)), ("buy", "scheduled", "buy k"))
        self.assertLess(abs(run.due - timezone.now()), timedelta(minutes=1))


class Tasks(Case):
    def test_a_task_is_enqueued_performed_and_its_result_read(self) -> None:
        result = tasks.add.enqueue(1, b=2)
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual((result.args, result.kwargs), ([1], {"b": 2}))
        self.assertIsNotNone(result.enqueued_at)
        self.assertEqual(result.attempts, 0)
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            _ = result.return_value

        perform()
        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual((result.return_value, result.attempts, result.errors), (3, 1, []))
        self.assertTrue(result.is_finished)
        self.assertIsNotNone(result.started_at)
        self.assertGreaterEqual(result.finished_at, result.started_at)
        self.assertEqual(tasks.add.get_result(result.id).return_value, 3)

    def test_a_failure_keeps_its_class_and_traceback(self) -> None:
        result = tasks.fail.enqueue()
        with self.assertRaisesMessage(Exception, "out of paper"):
            perform()

        result.refresh()

        self.assertEqual(result.status, TaskResultStatus.FAILED)
        [error] = result.errors
        self.assertIs(error.exception_class, ValueError)
        self.assertIn('raise ValueError("out of paper")', error.traceback)
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = result.return_value

    def test_what_is_no_json_is_refused_before_anything_is_written(self) -> None:
        with enqueued() as runs:
            for args in ([object()], [{1, 2}], [timezone.now()]):
                with self.assertRaises(TypeError):
                    tasks.add.enqueue(*args)

        self.assertEqual(list(runs), [])
        tasks.unfit.enqueue()
        with self.assertRaisesMessage(Exception, "Unsupported type"):
            perform()

    def test_priority_queue_and_time_are_kept_and_ordered(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        low = tasks.add.using(priority=-100).enqueue(1, 1)
        high = tasks.add.using(priority=100).enqueue(2, 2)
        plain = tasks.report.enqueue(page=3)
        waits = tasks.add.using(run_after=later).enqueue(4, 4)

        self.assertEqual(tasks.add.get_result(waits.id).task.run_after, later)
        self.assertEqual((plain.task.priority, plain.task.queue_name), (50, "reports"))
        self.assertEqual([str(run.id) for run in perform()], [high.id, plain.id, low.id])

    def test_a_task_may_take_context_or_be_a_coroutine(self) -> None:
        named, waited = tasks.who.enqueue("!"), tasks.wait.enqueue("tea")

        perform()

        self.assertEqual(tasks.who.get_result(named.id).return_value, f"{named.id}!:1")
        self.assertEqual(tasks.wait.get_result(waited.id).return_value, "tea")

    def test_a_task_is_enqueued_from_a_loop(self) -> None:
        async def enqueue_and_look() -> tuple[str, str]:
            result = await tasks.add.aenqueue(1, 2)
            found = await tasks.add.aget_result(result.id)
            await found.arefresh()
            return result.id, found.id

        made, found = async_to_sync(enqueue_and_look)()

        self.assertEqual(made, found)

    def test_it_is_enqueued_on_commit(self) -> None:
        with enqueued() as runs, self.assertRaises(LookupError):
            with transaction.atomic(using=ALIAS):
                tasks.add.enqueue(1, 2)
                raise LookupError

        self.assertEqual(list(runs), [])

    def test_unknown_and_other_results_are_told_apart(self) -> None:
        other = tasks.wait.enqueue("tea")
        job = buy.enqueue(title="Emma")

        for id in ("0", "no number", str(2**70), str(job.run_id)):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(id)
        with self.assertRaises(TaskResultMismatch):
            tasks.add.get_result(other.id)

    def test_queues_and_priorities_that_are_not_valid_are_refused(self) -> None:
        for wrong in ({"queue_name": "nowhere"}, {"priority": 101}, {"priority": -101}):
            with self.assertRaises(InvalidTaskError):
                tasks.add.using(**wrong)

    def test_signals_tell_of_each_step(self) -> None:
        heard: list[str] = []

        def hear(signal: object, task_result: object, **_: object) -> None:
            heard.append(str(task_result.status))

        signals = (task_enqueued, task_started, task_finished)
        for signal in signals:
            signal.connect(hear)
        try:
            tasks.add.enqueue(1, 2)
            perform()
        finally:
            for signal in signals:
                signal.disconnect(hear)

        self.assertEqual(heard, ["READY", "RUNNING", "SUCCESSFUL"])

    def test_a_closed_connection_of_the_test_stays_open_around_handlers(self) -> None:
        tasks.add.enqueue(1, 2)
        perform()

        self.assertTrue(connections[ALIAS].in_atomic_block)
        self.assertFalse(connections[ALIAS].closed_in_transaction)
