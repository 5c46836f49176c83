"""Whatever a file holds: facts, a note, or nothing. Never an exception, and never its secrets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from onejob.scan import Note
from onejob.scan.engine import facts_of
from onejob.scan.reading import SourceFile

FIXTURES = sorted(p for p in (Path(__file__).parent / "fixtures").rglob("*") if p.is_file())
PIECES = [
    *("{{", "}}", "{{- if", "<%", "%>", "${", "\0", "\\", '"', "'", "`", '"""', "|", "- ", "\n\n"),
    *("(", ")", "[", "]", "{", "}", "/*", "*/", "#", "//", "--", "<<EOF", "$$", "&a *a", "<<: *a"),
    *("é", "\N{CRAB}", "\N{LINE SEPARATOR}", " " * 300, "a" * 2_000, "0 0 31 2 *", "every "),
]
INPUTS = 300


def test_broken_files_end_in_facts_or_notes() -> None:
    chance = random.Random(20)

    stumbled = [
        (name, fact.text)
        for name, text in (broken(chance) for _ in range(INPUTS))
        for fact in facts_of(SourceFile(name, text))
        if isinstance(fact, Note) and "stumbled" in fact.text
    ]

    assert stumbled == []


def broken(chance: random.Random) -> tuple[str, str]:
    """Return the name of one fixture, and its text with cuts, repeats and pieces put into it."""
    path = chance.choice(FIXTURES)
    text = path.read_text(encoding="utf-8")
    for _ in range(chance.randint(1, 10)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.randrange(1, 50))
        match chance.randrange(3):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case _:
                text = text[:to] + text[at:to] * chance.randint(1, 4) + text[to:]
    return path.name, text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Deep.java", "class A { void f() { Thread.sleep" + "(" * 5_000),
        ("deep.go", "package a\nfunc f() { time.Tick(d); a" + ".b()" * 2_000 + " }"),
        ("Deep.cs", "class A : BackgroundService { x." + "A<" * 5_000),
        ("Deep.kt", "fun f() { delay(1) }" + "/* " * 5_000),
        ("deep.php", "<?php sleep(1); $a" + "->b()" * 2_000 + ";"),
        ("deep.rb", "loop do sleep 1 end; a = " + "[" * 5_000),
    ],
)
def test_a_file_made_to_be_deep_is_left_out_with_a_note(name: str, text: str) -> None:
    (note,) = facts_of(SourceFile(name, text))

    assert isinstance(note, Note)
    assert "nested too deeply" in note.text


def test_aliases_that_unfold_without_end_are_cut_off() -> None:
    bomb = "services: &a0 {x: {command: celery beat}}\n" + "".join(
        f"k{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]\n" for n in range(1, 12)
    )

    facts = facts_of(SourceFile("docker-compose.yml", bomb))

    assert [fact for fact in facts if isinstance(fact, Note)] == []


def test_facts_never_carry_a_command_an_option_or_a_value() -> None:
    """G07: what is scheduled carries tokens in clear text."""
    token = "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0"
    texts = {
        "crontab": f"0 3 * * * curl -H 'Authorization: Bearer {token}' http://x.test/{token}\n",
        "setup.sh": f'echo "0 3 * * * TOKEN={token} /srv/x.sh --token {token}" | crontab -\n',
        "Procfile": f"beat: celery -A shop beat --broker redis://:{token}@cache.test\n",
        "Dockerfile": f"ENV WORKERS=4 TOKEN={token}\nCMD gunicorn -w 4 --password {token} shop:a\n",
        "docker-compose.yml": f"services:\n  beat:\n    command: celery beat -b amqp://u:{token}@h\n"
        f"    environment: [TOKEN={token}, WORKERS=3]\n",
        "job.yaml": "kind: CronJob\nspec:\n  schedule: '0 3 * * *'\n"
        f"  jobTemplate: {{spec: {{template: {{spec: {{containers: ["
        f"{{command: [curl, {token}]}}]}}}}}}}}\n",
        "jobs.sql": f"SELECT cron.schedule('n', '0 3 * * *', $$SELECT post('{token}')$$);\n",
        "kernel.php": "<?php use Illuminate\\X; $schedule->exec('curl -H "
        f"{token} http://x')->daily();\n",
        "schedule.rb": f'every 1.day do\n  command "curl -u {token} http://x"\nend\n',
        "sweep.timer": f"[Timer]\nOnCalendar=daily\n[X]\nToken={token}\n",
        "uwsgi.ini": f"[uwsgi]\ncron = 0 3 -1 -1 -1 curl -H {token} http://x\n",
    }

    for name, text in texts.items():
        facts = facts_of(SourceFile(name, text))
        assert facts, name
        assert "c2VjcmV0" not in repr(facts), name
