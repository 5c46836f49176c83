"""The conformance suite: what every store must do, as tests that take the store as an argument.

A test is a function that takes ``run`` (carry out a command, return its answer) and nothing else,
so it covers every store and both colours. Tests that take ``sessions`` need two transactions open
at once, for one connection cannot show that a guard holds; those that take ``row_sessions`` need
locks on single rows besides. A store's test file collects what it can answer for::

    from onejob.testing import conformance

    globals().update(conformance.tests("run", "sessions"))

and provides fixtures of those names. Each test starts from an empty store, gives ``now`` itself
and never waits.
"""

from onejob.testing.conformance.bridge import bridge, coloured
from onejob.testing.conformance.sessions import Busy, Session, Sessions
from onejob.testing.conformance.suite import SUBJECTS, tests

__all__ = ["SUBJECTS", "Busy", "Session", "Sessions", "bridge", "coloured", "tests"]
