"""What a command line starts: web workers, a scheduler, a worker with a scheduler inside, or
nothing of interest.

Container commands, process files, unit files and shell scripts all hold command lines. Wrappers
(``exec``, ``bundle exec``, ``tini --``, ``sh -c "..."``) are looked through. Of the command only
names of programs, modules and scripts are kept; never the whole line, an option's value or a token.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from onejob.scan.finding import Verdict
from onejob.scan.ourselves import said

CHARACTERS_MAX = 4_000
COMMANDS_MAX = 60
NESTED_MAX = 4


@dataclass(frozen=True, slots=True)
class Started:
    """What one command line starts."""

    kind: str
    """A launch's kind, or "" where nothing about it is of interest beyond its words."""
    program: str
    fires: str = "process"
    workers: int | None = 1
    """None where an environment variable says, or the machine."""
    workers_from: str = ""
    """The environment variable that says how many."""
    embeds: bool = False
    verdict: Verdict = Verdict.SINGLE
    why: str = ""
    offset: int = 0
    """Lines below the start of the text that was read."""
    words: tuple[str, ...] = field(default=())
    redbeat: bool = False
    execs: bool = False
    """The shell is replaced by it, so that signals arrive."""


#: What only prepares or looks; the names that follow it are started by nobody.
_PREPARES_WORDS = """
    echo printf apt-get apt apk yum dnf pip pip3 pipx rm cp mv chmod chown ln which command
    pkill killall kill grep egrep ps pgrep cat test [ [[ touch mkdir sed awk install useradd
    usermod adduser addgroup groupadd type export set source . cd pushd popd curl wget git
    docker brew systemctl service journalctl supervisorctl sudo-apt if then else fi for do done
    until while case esac function return local unset shift true false exit trap tail head sort
    uniq xargs kubectl helm docker-compose make pytest tox man help nc alias ssh scp rsync tar
    unzip gem npm-install logger
"""
_PREPARES = frozenset(_PREPARES_WORDS.split())
#: What starts the rest of the line.
_WRAPS_WORDS = """
    exec nohup nice ionice time env sudo gosu su-exec tini dumb-init catatonit doppler chamber
    bundle poetry uv pipenv hatch pdm rye npx pnpm yarn bunx dotenv watchmedo newrelic-admin
    ddtrace-run opentelemetry-instrument s6-setuidgid setuser chpst runuser unbuffer stdbuf
    entrypoint.sh docker-entrypoint.sh wait-for-it.sh wait-for wait-for.sh start-stop-daemon
    command then do else xvfb-run aws-vault envconsul catchsegv
"""
_WRAPS = frozenset(_WRAPS_WORDS.split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_ENDS = frozenset(("&&", "||", ";", ";;", "\n", "&"))
_PIECE = re.compile(
    r"\\\n|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|&&|\|\||\|&|[<>]&\d?|&>>?|;;|[;|&\n]|(?<!\S)#[^\n]*"
    r"|[^\\'\";|&\n#<>]+|.",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z0-9_@./][A-Za-z0-9_./:@-]{1,80}")
_SECRET_OPTION = re.compile(r"pass|secret|token|key|auth|credential|dsn|url|broker", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{?(\w+)(?::?[-=](\d+))?\}?$|%\(ENV_(\w+)\)s$")


def started(text: str | Sequence[str]) -> list[Started]:
    """Return what a command text, or a list of arguments, starts; in its order."""
    if isinstance(text, str):
        return list(_of_text(text[:CHARACTERS_MAX], 0))
    arguments = [each[:CHARACTERS_MAX] for each in text][:200]
    return list(_of_arguments(arguments, 0))


def _of_text(text: str, depth: int) -> Iterator[Started]:
    for offset, command in islice(_commands(text), COMMANDS_MAX):
        for found in _of_arguments(_words(command), depth):
            yield replace(found, offset=offset + found.offset)


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Split a script at what ends a command; quotes hold, and a pipe's second half is left out."""
    piece: list[str] = []
    begins = offset = 0
    piped = False
    for match in _PIECE.finditer(text):
        token = match[0]
        if token in _ENDS or token.startswith("#"):
            if piece:
                yield begins, "".join(piece)
            piece, piped = [], False
        elif token in ("|", "|&"):
            piped = True
        elif not piped and (piece or token.strip(" \t({\\\n")):
            if not piece:
                begins = offset
            piece.append(" " if token.startswith("\\\n") else token)
        offset += token.count("\n")
    if piece:
        yield begins, "".join(piece)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _of_arguments(arguments: list[str], depth: int) -> Iterator[Started]:
    rest = list(arguments)
    execs = False
    while rest:
        base = rest[0].rpartition("/")[2].lower()
        if _ASSIGNMENT.match(rest[0]):
            rest = rest[1:]
        elif base in ("sh", "bash", "ash", "dash", "zsh", "su") and _script(rest) is not None:
            if depth < NESTED_MAX:
                yield from _of_text(_script(rest) or "", depth + 1)
            return
        elif base in _WRAPS:
            execs = execs or base == "exec"
            rest = _unwrapped(rest)
        else:
            break
    if not rest or rest[0].rpartition("/")[2].lower() in _PREPARES:
        return
    found = recognised(rest)
    yield replace(found, words=_names(rest), execs=execs)


def _script(arguments: list[str]) -> str | None:
    for position, each in enumerate(arguments[1:5], start=1):
        if re.fullmatch(r"-[a-z]*c", each) and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def _unwrapped(arguments: list[str]) -> list[str]:
    """Leave a wrapper out, with its options and its own sub-command."""
    base = arguments[0].rpartition("/")[2].lower()
    rest = arguments[1:]
    if "--" in rest and base not in ("exec", "env", "command"):
        before = rest[: rest.index("--")]
        if not any(each.rpartition("/")[2] == "onejob" for each in before):
            return rest[len(before) + 1 :]
    if base in ("gosu", "su-exec", "setuser", "chpst", "s6-setuidgid") and rest:
        return rest[1:]
    while rest and rest[0].startswith("-"):
        takes = base in ("sudo", "nice", "ionice", "env") and re.fullmatch(r"-[ungc]", rest[0])
        rest = rest[2:] if takes else rest[1:]
    if base in ("bundle", "poetry", "uv", "pipenv", "hatch", "pdm", "rye", "npx", "pnpm", "yarn"):
        if rest and rest[0] in ("exec", "run", "dlx", "run-program"):
            rest = rest[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[1:]
    if base == "newrelic-admin" and rest and rest[0] == "run-program":
        rest = rest[1:]
    return rest


def recognised(arguments: list[str]) -> Started:
    """Return what a command without wrappers starts."""
    program = arguments[0].rpartition("/")[2].lower()
    rest = arguments[1:]
    if re.fullmatch(r"python[\d.]*|pypy3?|ruby|node|php", program):
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[2:] if rest[0] in ("-W", "-X", "-r", "-d") else rest[1:]
        if rest and rest[0] == "-m":
            rest = rest[1:]
        if rest:
            program, rest = rest[0].rpartition("/")[2].lower(), rest[1:]
    for recognise in (_onejob, _celery, _web, _pool, _scheduler):
        found = recognise(program, rest)
        if found is not None:
            return found
    return Started("", program)


def _onejob(program: str, rest: list[str]) -> Started | None:
    if program != "onejob":
        return None
    found = said(rest)
    return Started(found.kind, found.program, verdict=found.gives, why=found.why)


def _celery(program: str, rest: list[str]) -> Started | None:
    if program not in ("celery", "celery.bin", "djcelery"):
        return None
    command = next((each for each in rest if each in ("worker", "beat", "multi")), "")
    redbeat = any("redbeat" in each.lower() for each in rest)
    if command == "beat":
        return Started("scheduler-command", "celery beat", "scheduler", redbeat=redbeat)
    if command not in ("worker", "multi"):
        return None
    if any(each in ("-B", "--beat") or re.fullmatch(r"-[lc]?B\w*", each) for each in rest):
        return Started(
            "embedded-scheduler",
            "celery worker --beat",
            "scheduler",
            embeds=True,
            verdict=Verdict.MULTIPLIER,
            why="starts a beat inside the worker: each further worker brings a beat of its own",
            redbeat=redbeat,
        )
    return Started("", "celery worker", "worker", workers=1)


_WEB = {
    "gunicorn": ("-w", "--workers"),
    "uvicorn": ("--workers",),
    "hypercorn": ("-w", "--workers"),
    "granian": ("--workers",),
    "fastapi": ("--workers",),
    "uwsgi": ("-p", "--processes", "--workers"),
    "puma": ("-w", "--workers"),
    "unicorn": (),
    "passenger": ("--max-pool-size",),
    "thin": ("-s", "--servers"),
    "robyn": ("--workers", "--processes"),
    "sanic": ("--workers", "-w"),
}


def _web(program: str, rest: list[str]) -> Started | None:
    options = _WEB.get(program)
    if options is None:
        return None
    given = option(rest, *options)
    if program == "sanic" and "--fast" in rest:
        given = "auto"
    if given is None:
        # Nothing on the line: WEB_CONCURRENCY may still say more than one.
        return Started("", program, "web", workers=1, workers_from="WEB_CONCURRENCY")
    workers, variable = number(given)
    many = workers != 1
    return Started(
        "web-workers" if many else "",
        program,
        "web",
        workers=workers,
        workers_from=variable,
        verdict=Verdict.MULTIPLIER if many else Verdict.SINGLE,
        why=f"starts {workers or 'several'} processes, and each loads the whole application"
        if many
        else "",
    )


def _pool(program: str, rest: list[str]) -> Started | None:
    if program in ("pm2", "pm2-runtime", "pm2-docker"):
        given = option(rest, "-i", "--instances")
        workers = number(given)[0] if given else 1
        if workers != 1:
            return Started(
                "process-manager",
                "pm2",
                "web",
                workers=workers,
                verdict=Verdict.MULTIPLIER,
                why="starts several instances of the program, and each fires by itself",
            )
    return None


#: Program, then words that must be among its arguments, then what is said.
_SCHEDULERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("rqscheduler", (), "rq scheduler"),
    ("manage.py", ("rqscheduler",), "rq scheduler"),
    ("manage.py", ("rq", "scheduler"), "rq scheduler"),
    ("flask", ("rq", "scheduler"), "rq scheduler"),
    ("manage.py", ("qcluster",), "django-q cluster"),
    ("manage.py", ("run_huey",), "huey consumer"),
    ("huey_consumer", (), "huey consumer"),
    ("huey_consumer.py", (), "huey consumer"),
    ("taskiq", ("scheduler",), "taskiq scheduler"),
    ("periodiq", (), "periodiq"),
    ("manage.py", ("runapscheduler",), "apscheduler process"),
    ("airflow", ("scheduler",), "airflow scheduler"),
    ("arq", (), "arq worker"),
    ("clockwork", (), "clockwork"),
    ("clockworkd", (), "clockwork"),
    ("resque-scheduler", (), "resque-scheduler"),
    ("rake", ("resque:scheduler",), "resque-scheduler"),
    ("crono", (), "crono"),
    ("artisan", ("schedule:work",), "laravel scheduler"),
    ("artisan", ("schedule:run",), "laravel scheduler"),
    ("artisan", ("schedule:daemon",), "laravel scheduler"),
    ("console", ("messenger:consume", "scheduler_default"), "symfony scheduler"),
    ("crond", (), "crond"),
    ("cron", (), "cron"),
    ("busybox", ("crond",), "crond"),
    ("supercronic", (), "supercronic"),
    ("go-cron", (), "go-cron"),
    ("ofelia", ("daemon",), "ofelia"),
    ("yacron", (), "yacron"),
    ("dkron", ("agent",), "dkron"),
)
#: A process of the house's own that is named for it.
_NAMED = re.compile(
    r"(?:^|[^a-z])(?:scheduler|schedule|cron|cronjobs?|beat|clock|ticker|periodic)"
    r"(?:d|\.(?:sh|py|rb|js|ts|mjs|cjs|jar))?(?:$|[^a-z])"
)
_NO_SCHEDULER = re.compile(r"crontab|cronjob_|nocron|disable|scheduled?=false|test", re.IGNORECASE)


def _scheduler(program: str, rest: list[str]) -> Started | None:
    for name, needed, shown in _SCHEDULERS:
        if program == name and all(any(word in each for each in rest) for word in needed):
            return Started("scheduler-command", shown, "scheduler")
    if program == "rq" and rest[:1] == ["cron"]:
        return Started("scheduler-command", "rq cron", "scheduler")
    if program in ("rq", "rqworker") and "--with-scheduler" in rest:
        return Started(
            "embedded-scheduler",
            "rq worker --with-scheduler",
            "scheduler",
            embeds=True,
            why="brings a scheduler that takes a lock in Redis: one of the workers acts",
        )
    for each in (program, *rest[:4]):
        plain = each.rpartition("/")[2].lower() if not each.startswith("-") else ""
        if plain and "=" not in plain and _NAMED.search(plain) and not _NO_SCHEDULER.search(plain):
            return Started("scheduler-command", _safe(each.rpartition("/")[2]), "process")
    return None


def option(arguments: list[str], *names: str) -> str | None:
    """Return an option's value: ``-w 4``, ``-w4``, ``--workers=4``; None where it is not given."""
    for position, each in enumerate(arguments):
        for name in names:
            if each == name:
                return arguments[position + 1] if position + 1 < len(arguments) else ""
            if name.startswith("--") and each.startswith(name + "="):
                return each[len(name) + 1 :]
            short = re.fullmatch(re.escape(name) + r"=?(\d+|max|\$\S+)", each)
            if not name.startswith("--") and short:
                return short[1]
    return None


def number(text: str) -> tuple[int | None, str]:
    """Return a count, and the environment variable that may change it."""
    plain = text.strip().strip("\"'")
    if re.fullmatch(r"\d{1,5}", plain):
        return int(plain), ""
    variable = _VARIABLE.match(plain)
    if variable:
        return (int(variable[2]) if variable[2] else None), variable[1] or variable[3] or ""
    return None, ""


def _names(arguments: list[str]) -> tuple[str, ...]:
    """Return the names of programs, modules and scripts in a command: never an option's value."""
    found = []
    skip = False
    for each in arguments[:40]:
        if skip:
            skip = False
        elif each.startswith("-"):
            name, equals, value = each.partition("=")
            if name in ("--app", "-A", "--module", "--class") and _WORD.fullmatch(value):
                found.append(value)
            skip = not equals and _SECRET_OPTION.search(name) is not None
        elif (
            _WORD.fullmatch(each) and "://" not in each and not re.search(r"[A-Za-z0-9]{32}", each)
        ):
            found.append(each)
    return tuple(dict.fromkeys(found))


def _safe(text: str) -> str:
    return re.sub(r"[^\w.:@/-]", "", text)[:60]
