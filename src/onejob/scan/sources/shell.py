"""Shell scripts: what an entrypoint starts, lines for ``crontab``, files put into ``cron.d``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.command import CHARACTERS_MAX, started
from onejob.scan.facts import Fact, Function, Smell, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.prefixed import guarded_by_us
from onejob.scan.reading import SourceFile
from onejob.scan.sources.crontab import entry, trigger

PATTERNS = ("*.sh", "*.bash", "#!sh", "*.sh.erb", "*.sh.j2", "*.sh.tmpl", "*.sh.tpl")

_STARTS = re.compile(
    r"\b(celery|gunicorn|uvicorn|hypercorn|granian|puma|uwsgi|pm2|pm2-runtime|rqscheduler|rq|qcluster"
    r"|run_huey|huey_consumer|taskiq|periodiq|airflow|clockwork|clockworkd|resque-scheduler|crond"
    r"|supercronic|ofelia|onejob|schedule:work|schedule:run|fastapi|sanic|arq)\b"
)
_CRON_TARGET = re.compile(r"\bcrontab\b|/etc/cron\.d/|/etc/crontab|/var/spool/cron|/etc/crontabs/")
_ECHOED = re.compile(r"\b(?:echo|printf)\s+(?:-\w+\s+)*(?P<quote>[\"'])(?P<line>.*?)(?P=quote)")
_HERE = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_FROM_CRONJOB = re.compile(r"\bkubectl\b[^\n]*\bcreate\s+job\b[^\n]*--from[= ]\S*cronjobs?/(\S+)")
HERE_LINES_MAX = 500


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a script starts and schedules."""
    if _STARTS.search(file.text):
        yield from _started(file)
        yield from _gathered(file)
    if _CRON_TARGET.search(file.text):
        yield from cron_lines(file, file.lines, 1)
    yield from created_jobs(file, "shell")
    if "onejob" in file.text and len(file.text) <= CHARACTERS_MAX:
        ours = guarded_by_us(started(file.text), 1)
        if ours is not None:
            yield Function(file.name, file.path, ours.line, (ours,))


def _started(file: SourceFile) -> Iterator[Fact]:
    """Return what the lines start; a heredoc's content is some other file's."""
    kept = []
    ends = ""
    for text in file.lines:
        if ends:
            ends = "" if text.strip() == ends else ends
            kept.append("")
            continue
        here = _HERE.search(text)
        ends = here[1] if here and "<<<" not in text else ""
        kept.append(text)
    position = 0
    while position < len(kept):
        if not _STARTS.search(kept[position]):
            position += 1
            continue
        begins = position
        while begins > 0 and kept[begins - 1].endswith("\\"):
            begins -= 1
        ends_at = position
        while ends_at + 1 < len(kept) and kept[ends_at].endswith("\\"):
            ends_at += 1
        command = "\n".join(kept[begins : ends_at + 1])
        if "entrypoint" in file.name.lower():
            yield from _without_exec(file, command, begins + 1)
        yield from launches(
            command, Place(file.path, begins + 1, "shell", words=(file.name,)), all_of_them=True
        )
        position = ends_at + 1


def _without_exec(file: SourceFile, command: str, line: int) -> Iterator[Smell]:
    """See an entrypoint that stays beside what it starts, and does not pass SIGTERM on."""
    found = [each for each in started(command) if each.kind or each.fires in ("web", "worker")]
    if found and not any(each.execs for each in found) and not command.rstrip().endswith("&"):
        yield Smell(
            kind="shell-as-pid-1",
            path=file.path,
            line=line,
            language="shell",
            name=found[-1].program,
            why="an entrypoint starts it without exec: the shell stays process 1, does not pass "
            "SIGTERM on, and a job is killed in the middle when the container stops",
            confidence="medium",
        )


def _gathered(file: SourceFile) -> Iterator[Fact]:
    """See options that a script adds to a list first: ``ARGS+=("--beat")``, ``OPTS="$OPTS -B"``."""
    if "celery" not in file.text:
        return
    for number, text in enumerate(file.lines, start=1):
        match = re.match(r"\s*\w+\+?=[(\"'].*?(?<![\w-])(--beat|-B)\b", text)
        if match:
            command = f"celery worker {match[1]}"
            yield from launches(
                command, Place(file.path, number, "shell", words=(file.name,)), all_of_them=True
            )
            return


def cron_lines(file: SourceFile, lines: list[str], first: int) -> Iterator[Trigger]:
    """Return the crontab lines that commands write: piped to ``crontab``, or put into a file."""
    ends = ""
    wanted = False
    for number, text in enumerate(lines, start=first):
        if ends:
            if text.strip() == ends:
                ends = ""
            elif wanted and not text.lstrip().startswith("#"):
                found = entry(text, number, user_field=_user_field(text))
                if found is not None:
                    yield trigger(found, file, number, "crontab-pipe")
            continue
        if text.lstrip().startswith("#"):
            continue
        here = _HERE.search(text)
        if here and "<<<" not in text:
            ends = here[1]
            wanted = _CRON_TARGET.search(text) is not None
            continue
        for echoed in _ECHOED.finditer(text):
            around = lines[max(0, number - first - 1) : number - first + 3]
            near = "\n".join(each for each in around if not each.lstrip().startswith("#"))
            written = echoed["line"].replace("\\n", "").strip()
            found = entry(written, number, user_field=_user_field(written))
            if found is not None and _CRON_TARGET.search(near):
                yield trigger(found, file, number, "crontab-pipe")


def created_jobs(file: SourceFile, language: str) -> Iterator[Trigger]:
    """Return the places that start a CronJob's job outside its schedule."""
    if "cronjob" not in file.text:
        return
    for number, text in enumerate(file.lines, start=1):
        match = _FROM_CRONJOB.search(text)
        if match and not text.lstrip().startswith("#"):
            yield Trigger(
                kind="job-from-cronjob",
                path=file.path,
                line=number,
                language=language,
                name=re.sub(r"[^\w.-]", "", match[1])[:60],
                schedule="at each deployment",
                fires="platform",
                alone=Verdict.UNGUARDED,
                why="starts the CronJob's job a second time, beside its schedule; the CronJob's "
                "concurrencyPolicy does not see it",
            )


def _user_field(text: str) -> bool:
    return re.match(r"\s*(?:\S+\s+){5}(?:root|www-data|nobody)\s", text) is not None
