"""What JavaScript starts: PM2's process files, and clusters."""

from __future__ import annotations

from collections.abc import Iterator

from onejob.scan.facts import Launch
from onejob.scan.finding import Verdict
from onejob.scan.sources.javascript.script import Script, called, entries
from onejob.scan.syntax import line, nodes


def find(script: Script) -> Iterator[Launch]:
    """Return the launches that this file is."""
    for node in nodes(script.root, "object"):
        given = entries(node)
        if "script" not in given or "instances" not in given:
            continue
        text = given["instances"].text().strip("\"'")
        if text == "1":
            continue
        number = int(text) if text.isdigit() else None
        words = (script.text(given["script"]), script.text(given.get("name")))
        yield Launch(
            kind="process-manager",
            path=script.path,
            line=line(given["instances"]),
            language=script.language,
            name=script.text(given.get("name")) or "pm2",
            words=words,
            fires="web",
            workers=number if number != 0 else None,
            verdict=Verdict.MULTIPLIER,
            why="starts several processes of one program, and each fires what it loads",
        )
    if script.uses("cluster", "node:cluster"):
        for node in nodes(script.root, "call_expression"):
            if called(node).endswith("cluster.fork"):
                yield Launch(
                    kind="process-manager",
                    path=script.path,
                    line=line(node),
                    language=script.language,
                    name="cluster",
                    words=(script.path,),
                    fires="web",
                    verdict=Verdict.MULTIPLIER,
                    why="forks a worker for each core, and each fires what it loads",
                )
                return
