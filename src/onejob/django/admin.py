"""Runs, schedules and unknown effects in Django's admin: to look at, and to act on with a right.

Nothing is edited here. What an action does goes through the App, with its guards, and is refused
where the state has moved on meanwhile. Arguments and results are not shown.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages

from onejob.django import app
from onejob.django.models import Effect, Run, Schedule
from onejob.errors import OnejobError


class ReadOnly(admin.ModelAdmin):
    """A view of ours. Each action names the permission that it asks for."""

    def get_queryset(self, request: Any) -> Any:
        """Ask the database that has our tables."""
        found = super().get_queryset(request)
        return found.using(app.alias) if app.alias else found.none()

    def has_add_permission(self, request: Any) -> bool:
        """Nothing is made here."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Nothing is edited here."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Nothing is deleted here."""
        return False

    def _may(self, request: Any, what: str) -> bool:
        return bool(request.user.has_perm(f"onejob.{what}"))

    def _tell(self, request: Any, done: int, refused: list[str], verb: str) -> None:
        if done:
            self.message_user(request, f"{verb}: {done}", messages.SUCCESS)
        for why in refused:
            self.message_user(request, why, messages.WARNING)


@admin.register(Run)
class RunAdmin(ReadOnly):
    """Runs, newest first; a retried one has a row for each end."""

    list_display = ("id", "job", "key", "shown_state", "attempt", "due", "started", "ended")
    list_filter = ("state", "outcome", "job")
    search_fields = ("=key", "=job")
    ordering = ("-id", "-token")
    show_full_result_count = False
    actions = ("retry_runs", "cancel_runs")

    def get_object(self, request: Any, object_id: str, from_field: str | None = None) -> Any:
        """Return the latest row of a run."""
        found = self.get_queryset(request).filter(pk=object_id) if object_id.isdecimal() else []
        return max(found, key=lambda run: run.token, default=None)

    @admin.display(description="state", ordering="state")
    def shown_state(self, run: Run) -> str:
        """Return the outcome once it has ended."""
        return str(run.outcome or run.state)

    def has_retry_permission(self, request: Any) -> bool:
        """Tell whether this user may retry runs."""
        return self._may(request, "retry_run")

    def has_cancel_permission(self, request: Any) -> bool:
        """Tell whether this user may cancel runs."""
        return self._may(request, "cancel_run")

    @admin.action(description="Retry: bring back under the old id and key", permissions=["retry"])
    def retry_runs(self, request: Any, queryset: Any) -> None:
        """Bring ended, parked or unknown runs back."""
        self._each(request, queryset, app.runs.retry, "Scheduled again", "is live, or its key went")

    @admin.action(description="Cancel: end now, also while running", permissions=["cancel"])
    def cancel_runs(self, request: Any, queryset: Any) -> None:
        """End runs as cancelled."""
        self._each(request, queryset, app.runs.cancel, "Cancelled", "has ended already")

    def _each(self, request: Any, queryset: Any, act: Any, verb: str, refused: str) -> None:
        ids = sorted(set(queryset.values_list("id", flat=True)))
        done = {id: act(id) for id in ids}
        why = [f"run {id}: nothing done, it {refused}." for id, ok in done.items() if not ok]
        self._tell(request, sum(done.values()), why, verb)


@admin.register(Schedule)
class ScheduleAdmin(ReadOnly):
    """Schedules: what fires when."""

    list_display = ("name", "job", "last_fire_time", "next_fire_time", "paused", "broken")
    list_filter = ("paused",)
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("pause_schedules", "resume_schedules")

    def has_pause_permission(self, request: Any) -> bool:
        """Tell whether this user may pause and resume schedules."""
        return self._may(request, "pause_schedule")

    @admin.action(description="Pause in the whole fleet", permissions=["pause"])
    def pause_schedules(self, request: Any, queryset: Any) -> None:
        """Let no fire time become a run until resumed."""
        names = list(queryset.values_list("name", flat=True))
        for name in names:
            app.schedules.pause(name)
        self._tell(request, len(names), [], "Paused")

    @admin.action(description="Resume", permissions=["pause"])
    def resume_schedules(self, request: Any, queryset: Any) -> None:
        """Let them fire again; what has passed is recorded as missed."""
        names = list(queryset.values_list("name", flat=True))
        for name in names:
            app.schedules.resume(name)
        self._tell(request, len(names), [], "Resumed")


@admin.register(Effect)
class EffectAdmin(ReadOnly):
    """Effects whose outcome is not known: claimed and never recorded, or said to be unknown."""

    list_display = ("scope", "key", "state", "attempt", "claimed", "error")
    search_fields = ("=scope", "=key")
    ordering = ("claimed",)
    actions = ("resolve_done", "resolve_redo", "resolve_failed")

    def get_queryset(self, request: Any) -> Any:
        """Leave out what is settled: of those there is one for each thing ever done."""
        return super().get_queryset(request).filter(state__in=("claimed", "unknown"))

    def has_resolve_permission(self, request: Any) -> bool:
        """Tell whether this user may say what happened."""
        return self._may(request, "resolve_effect")

    @admin.action(description="It happened: done", permissions=["resolve"])
    def resolve_done(self, request: Any, queryset: Any) -> None:
        """Record that the provider has it."""
        self._resolve(request, queryset, "done")

    @admin.action(description="It did not happen: call it again", permissions=["resolve"])
    def resolve_redo(self, request: Any, queryset: Any) -> None:
        """Forget the claim."""
        self._resolve(request, queryset, "redo")

    @admin.action(description="The provider refused it for good: failed", permissions=["resolve"])
    def resolve_failed(self, request: Any, queryset: Any) -> None:
        """Record that it was refused."""
        self._resolve(request, queryset, "failed")

    def _resolve(self, request: Any, queryset: Any, answer: Any) -> None:
        refused: list[str] = []
        done = 0
        for effect in list(queryset):
            try:
                app.effects.resolve(effect.scope, effect.key, answer)
                done += 1
            except (OnejobError, LookupError) as error:
                refused.append(str(error))
        self._tell(request, done, refused, f"Settled as {answer}")
