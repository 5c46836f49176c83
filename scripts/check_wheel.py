"""Build the wheel and check what `pip install onejob` would bring.

What a user gets differs from what a checkout has: a text of a store that is left out of the wheel
is missing only there, and a seventh package arrives unseen.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
PACKAGES_MAX = 6


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="onejob-wheel-") as scratch:
        wheel = build(Path(scratch))
        missing = sources() - contents(wheel)
        if missing:
            sys.exit("left out of the wheel: " + ", ".join(sorted(missing)))
        brought = would_install(wheel)
    if len(brought) > PACKAGES_MAX:
        sys.exit(f"more than {PACKAGES_MAX} packages: {', '.join(brought)}")
    print(f"{wheel.name}: all of src/onejob, and {len(brought)} packages: {', '.join(brought)}")


def build(directory: Path) -> Path:
    pip("wheel", "--no-deps", "--wheel-dir", str(directory), str(ROOT))
    (wheel,) = directory.glob("onejob-*.whl")
    return wheel


def sources() -> set[str]:
    """The files of the package that git knows, as the wheel must name them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src/onejob"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    return {name.removeprefix("src/") for name in names}


def contents(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def would_install(wheel: Path) -> list[str]:
    """Name what pip would install with the wheel into an empty environment."""
    said = pip("install", "--dry-run", "--ignore-installed", str(wheel))
    last = next(line for line in reversed(said.splitlines()) if line.startswith("Would install"))
    names = (word.rpartition("-")[0] for word in last.split()[2:])
    return sorted(name for name in names if name != "onejob")


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
