"""Find the App that ``MODULE:APP`` names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import onejob
from onejob.environment import LOOKING
from onejob.errors import OnejobError, UsageError

if TYPE_CHECKING:
    from onejob.app import App


def load(spec: str, *, fires: bool = False) -> App:
    """Import ``module:app`` from the current directory or the path, and return the App.

    A module may start a scheduler, or the App, as it is imported. Unless this command ``fires``,
    the import is one with ONEJOB_DISABLED: who only looks must win no tick.

    Raises UsageError where that names none, and where the user's code raises while it is imported:
    the sentence says what and where. An error of onejob itself goes on as it is.
    """
    from onejob.app import App

    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{spec!r} names no App. Write MODULE:APP, such as shop.jobs:app.")
    if os.sep in module_name or module_name.startswith(".") or module_name.endswith(".py"):
        raise UsageError(_file_named(module_name, attribute))
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    with nullcontext() if fires else _nothing_fires():
        module = _imported(module_name)
    found: object = module
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    hint = f" Did you mean {module_name}:{apps[0]}?" if apps else ""
    what = "has no such attribute" if found is None else f"is a {type(found).__name__}, not an App"
    raise UsageError(f"{spec}: {what}.{hint}")


@contextmanager
def _nothing_fires() -> Iterator[None]:
    """Set ONEJOB_DISABLED for a while; what a program is given later must not have it."""
    before = os.environ.get("ONEJOB_DISABLED")
    os.environ["ONEJOB_DISABLED"] = "1"
    looking = LOOKING.set(True)
    try:
        yield
    finally:
        LOOKING.reset(looking)
        if before is None:
            del os.environ["ONEJOB_DISABLED"]
        else:
            os.environ["ONEJOB_DISABLED"] = before


def _imported(name: str) -> ModuleType:
    """Import a module; whatever the user's code raises meanwhile is a UsageError with its place."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise UsageError(
                f"there is no module {missing!r} here or on the path. Run this where it is, "
                "or install it."
            ) from error
        raise UsageError(
            f"{name} needs the module {missing!r}, which is missing{_place(error)}."
        ) from error
    except OnejobError:
        raise  # it says itself what to do
    except Exception as error:
        # Somebody else's code: it may raise anything, and none of it is a bug of ours.
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raised = f"{type(error).__name__}: {what}" if what else type(error).__name__
        raise UsageError(
            f"{name} raised {raised} while it was imported{_place(error)}. "
            "ONEJOB_DEBUG=1 shows the traceback."
        ) from error


def _place(error: Exception) -> str:
    """Return `` (FILE:LINE)``: the innermost line of the user's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_shown(error.filename)}:{error.lineno})"
    machinery = (__file__, importlib.__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in machinery and not frame.filename.startswith("<frozen ")
    ]
    # An App may be installed like a library: then it is where the import began.
    own = [frame for frame in frames if _is_users(Path(frame.filename))] or frames[:1]
    return f" ({_shown(own[-1].filename)}:{own[-1].lineno})" if own else ""


def _is_users(file: Path) -> bool:
    libraries = (Path(os.__file__).parent, Path(onejob.__file__).parent)
    installed = "site-packages" in file.parts or "dist-packages" in file.parts
    return not installed and not any(file.is_relative_to(library) for library in libraries)


def _shown(file: str) -> str:
    """Return a path as short as it can be said here."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _file_named(given: str, attribute: str) -> str:
    """Say which module the name of a file stands for: ``./shop/jobs.py`` is shop.jobs."""
    path = Path(given.removesuffix(".py"))
    if path.is_absolute() or ".." in path.parts:
        return (
            f"{given!r} is the name of a file. Go to its folder and write the module's name: "
            f"{path.name.strip('.') or 'shop'}:{attribute}."
        )
    module = ".".join(path.parts).strip(".") or "shop"
    return f"{given!r} is the name of a file. Write the module's name: {module}:{attribute}."
