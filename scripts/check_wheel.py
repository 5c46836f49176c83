"""Build sdist and wheel, and check what a user of either gets.

What a user gets differs from what a checkout has: a text of a store that is left out is missing
only there, and a seventh package arrives unseen. The steps:

1. Build the sdist, and the wheel from it: so both are whole where the wheel is.
2. Compare what is in the wheel with what git knows of the package.
3. Compare the version with the tag of this commit, where it has one, and with CHANGELOG.md.
4. Compare what each extra names with what is written down here.
5. Install the wheel into an environment of its own, count the packages, and use it.
"""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
PACKAGES_MAX = 6

#: What each extra may bring, by the names of what it asks for. Theirs bring what they need.
EXTRAS = {
    "postgres": {"psycopg[binary]"},
    "mysql": {"PyMySQL"},
    "redis": {"redis"},
    "rabbitmq": {"aio-pika"},
    "pika": {"pika"},
    "nats": {"nats-py"},
    "sqs": {"boto3"},
    "kafka": {"aiokafka"},
    "django": {"Django"},
    "scan": {"ast-grep-py", "PyYAML"},
}

#: Run by the Python of the clean environment: a job from enqueue to its end, as on a first day.
FIRST_DAY = """
import asyncio, onejob
app = onejob.App("sqlite:///first.db")
app.store.init()

@app.job()
def greet(name: str) -> str:
    return "hello " + name

async def main():
    serving = app.serving()
    task = asyncio.create_task(serving.serve())
    asked = await greet.aenqueue(name="ada")
    run = await app.runs.await_(asked.run_id, timeout="30s")
    serving.stop()
    await task
    assert run.result == "hello ada", run

asyncio.run(main())
app.close()
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="onejob-wheel-") as directory:
        scratch = Path(directory)
        sdist, wheel = build(scratch)
        missing = sources() - contents(wheel)
        if missing:
            sys.exit("left out of the wheel: " + ", ".join(sorted(missing)))
        metadata = metadata_of(wheel)
        complaints = [*about_version(str(metadata["Version"])), *about_extras(metadata)]
        if complaints:
            sys.exit("\n".join(complaints))
        brought = installed(scratch, wheel)
    if len(brought) > PACKAGES_MAX:
        sys.exit(f"more than {PACKAGES_MAX} packages: {', '.join(brought)}")
    print(f"{sdist.name}, {wheel.name}: all of src/onejob, used in a clean environment,")
    print(f"{len(brought)} packages: {', '.join(brought)}; extras: {', '.join(EXTRAS)}, all")


def build(directory: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist."""
    said([sys.executable, "-m", "build", "--outdir", str(directory), str(ROOT)])
    (sdist,) = directory.glob("onejob-*.tar.gz")
    (wheel,) = directory.glob("onejob-*.whl")
    return sdist, wheel


def sources() -> set[str]:
    """The files of the package that git knows, as the wheel must name them."""
    names = said(["git", "ls-files", "-z", "src/onejob"]).split("\0")
    return {name.removeprefix("src/") for name in names if name and (ROOT / name).exists()}


def contents(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata_of(wheel: Path) -> email.message.Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def about_version(version: str) -> list[str]:
    """Compare the version with the tag of this commit, if any, and with what users are told."""
    heading = f"## {version}"
    told = [
        line
        for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
        if line == heading or line.startswith(f"{heading} ")
    ]
    complaints = [] if told else [f"CHANGELOG.md has nothing on {version}"]
    tags = said(["git", "tag", "--points-at", "HEAD"]).split()
    versions = [tag for tag in tags if tag.startswith("v")]
    if versions and f"v{version}" not in versions:
        complaints.append(
            f"this commit is {', '.join(versions)}, and pyproject.toml says {version}"
        )
    if versions and any("unreleased" in line for line in told):
        complaints.append(f"{version} is tagged, and CHANGELOG.md calls it unreleased")
    return complaints


def about_extras(metadata: email.message.Message) -> list[str]:
    """Compare what each extra asks for with what is written down above."""
    asked: dict[str, set[str]] = {
        str(name): set() for name in metadata.get_all("Provides-Extra", [])
    }
    for requirement in metadata.get_all("Requires-Dist", []):
        what, _, marker = str(requirement).partition(";")
        for name in asked:
            if f"extra == '{name}'" in marker or f'extra == "{name}"' in marker:
                asked[name].add(what.split(">")[0].split("<")[0].split("=")[0].strip().lower())
    wanted = {name: {one.lower() for one in named} for name, named in EXTRAS.items()}
    wanted["all"] = {one for named in wanted.values() for one in named}
    complaints = []
    if asked != wanted:
        complaints.append(f"the extras ask for {asked}, and are written down as {wanted}")
    return complaints


def installed(scratch: Path, wheel: Path) -> list[str]:
    """Install the wheel into an empty environment, use it, and name what came along."""
    home = scratch / "clean"
    venv.create(home, with_pip=True)
    python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    said([python, "-m", "pip", "--disable-pip-version-check", "install", str(wheel)])
    said([python, "-c", FIRST_DAY], cwd=scratch)
    said([python, "-m", "onejob", "--help"], cwd=scratch)
    listed = json.loads(said([python, "-m", "pip", "list", "--format", "json"]))
    return sorted(
        one["name"] for one in listed if one["name"] not in ("onejob", "pip", "setuptools")
    )


def said(command: list[str], *, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
