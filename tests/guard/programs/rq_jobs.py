"""Jobs that RQ's workers could import."""


def secondly() -> None: ...


def often() -> None: ...
