"""Find the App that ``MODULE:APP`` names."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.app import App


def load(spec: str) -> App:
    """Import ``module:app`` from the current directory or the path, and return the App.

    What the module itself raises goes on as it is, except for modules that are not there.
    """
    from onejob.app import App

    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{spec!r} names no App. Write MODULE:APP, such as shop.jobs:app.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise UsageError(
                f"there is no module {missing!r} here or on the path. Run this where it is, "
                "or install it."
            ) from error
        raise UsageError(
            f"{module_name} needs the module {missing!r}, which is missing."
        ) from error
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if isinstance(found, App):
        return found
    apps = [
        name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, App)
    ]
    hint = f" Did you mean {module_name}:{apps[0]}?" if apps else ""
    what = "has no such attribute" if found is None else f"is a {type(found).__name__}, not an App"
    raise UsageError(f"{spec}: {what}.{hint}")
