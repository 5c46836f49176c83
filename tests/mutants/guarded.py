"""Guards of other libraries' schedulers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GUARD = "tests/guard/test_guard.py"

GUARDED = (
    Mutant(
        "a tick that was taken over does not begin",
        "guards.py",
        'self._refused(permit.tick, "taken over before it began to fire")\n'
        "                    return False\n",
        "pass\n",
        f"{_GUARD} -k taken_over_before",
    ),
    Mutant(
        "an unknown tick is not fired again",
        "guards.py",
        'even_if_unsure=self.on_unknown == "fire"',
        "even_if_unsure=True",
        f"{_GUARD} -k while_it_fired",
    ),
    Mutant(
        "whoever waits for another does not fire when the store goes away",
        "guards.py",
        "            if again:\n",
        "            if not again:\n",
        f"{_GUARD} -k 'went_away or told'",
    ),
    Mutant(
        "whoever stood still says anew that it begins",
        "guards.py",
        "if services.clock.now() < deadline(asked_at=asked_at, lease=services.lease):",
        "if True:",
        f"{_GUARD} -k 'stood_still or standing_still'",
    ),
    Mutant(
        "whoever lost a reply asks again under the same name",
        "guards.py",
        "        except OutcomeUnknown:\n            return self._run(command)\n",
        "        except OutcomeUnknown:\n            raise\n",
        f"{_GUARD} -k lost_reply",
    ),
    Mutant(
        "an interval keeps its distance",
        "core/guarding.py",
        "spacing = Span(max(1, interval - slack(interval) - jitter))",
        "spacing = Span(1)",
        f"{_GUARD} tests/core/test_guarding.py -k interval",
    ),
    Mutant(
        "jitter that a process has drawn is taken off its fire time",
        "integrations/apscheduler.py",
        "    if jitter:\n",
        "    if False:\n",
        "tests/guard/test_apscheduler_hook.py -k jitter",
    ),
    Mutant(
        "a job without an id is not called by the random one",
        "integrations/apscheduler.py",
        "        if not guarding.is_random(job.id):\n",
        "        if True:\n",
        "tests/guard/test_apscheduler_hook.py -k without_an_id",
    ),
)
