"""Guards of requests that carry an idempotency key."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RULES = "integrations/idempotency/rules.py"
_ASGI = "integrations/idempotency/asgi.py"
_TESTS = "tests/integrations/test_idempotency.py"
_LIMITS = "tests/integrations/test_idempotency_limits.py"

REQUESTS = (
    Mutant(
        "a request's content is compared",
        _RULES,
        '"fingerprint": asked,',
        '"fingerprint": None,',
        f"{_TESTS} -k 'another_payload_under and sqlite'",
    ),
    Mutant(
        "one caller's keys are not another's",
        _RULES,
        'return f"{caller_name(caller)}/{key}"',
        'return f"anyone/{key}"',
        f"{_TESTS} -k 'callers_never_see and memory'",
    ),
    Mutant(
        "a request of which nobody knows the outcome is not carried out again",
        _RULES,
        '"repeat" if self._if_unknown == "repeat" else "wait"',
        '"repeat"',
        f"{_TESTS} -k 'failure_is_unknown and refuse'",
    ),
    Mutant(
        "an answer is recorded before any of it is sent",
        _ASGI,
        "        instead = await self._settle(answer)\n        self.settled = True\n",
        "        await self._send(self._start)\n        self._start = None\n"
        "        instead = await self._settle(answer)\n        self.settled = True\n",
        f"{_LIMITS} -k recorded_before",
    ),
    Mutant(
        "a service whose client has left goes on",
        _ASGI,
        "        await self._held.free.wait()\n",
        "",
        f"{_LIMITS} -k whose_client_has_left",
    ),
    Mutant(
        "whoever was taken over tells no answer of its own",
        _RULES,
        "                return problem.TAKEN_OVER\n",
        "                return None\n",
        "tests/integrations/test_idempotency_faults.py -k taken_over",
    ),
)
