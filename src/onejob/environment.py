"""What the process's environment says: is this one of many, and may it start anything?"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from onejob.errors import UsageError

#: Variables that a platform sets in each of its instances.
_FLEETS = {
    "KUBERNETES_SERVICE_HOST": "Kubernetes",
    "ECS_CONTAINER_METADATA_URI": "Amazon ECS",
    "ECS_CONTAINER_METADATA_URI_V4": "Amazon ECS",
    "AWS_LAMBDA_FUNCTION_NAME": "AWS Lambda",
    "FLY_APP_NAME": "Fly",
    "DYNO": "Heroku",
    "K_SERVICE": "Cloud Run",
    "GAE_INSTANCE": "App Engine",
    "WEBSITE_INSTANCE_ID": "Azure App Service",
    "CONTAINER_APP_NAME": "Azure Container Apps",
    "RENDER_SERVICE_ID": "Render",
    "RAILWAY_SERVICE_ID": "Railway",
    "NOMAD_ALLOC_ID": "Nomad",
    "CF_INSTANCE_INDEX": "Cloud Foundry",
}

#: A command that only looks is importing a user's module: what it has switched off is no news.
LOOKING: ContextVar[bool] = ContextVar("looking", default=False)

_YES = {"1", "true", "yes", "on"}
_NO = {"", "0", "false", "no", "off"}


def fleet(environ: Mapping[str, str]) -> str:
    """Return the platform that shows, with the variable that says so; "" where none does."""
    for variable, platform in _FLEETS.items():
        if environ.get(variable):
            return f"{platform} ({variable} is set)"
    return ""


def disabled(environ: Mapping[str, str]) -> bool:
    """Tell whether ONEJOB_DISABLED asks that nothing be started here."""
    value = environ.get("ONEJOB_DISABLED", "").strip().lower()
    if value not in _YES | _NO:
        raise UsageError(
            "ONEJOB_DISABLED is neither yes nor no. Set it to 1 to start nothing in this process, "
            "or to 0."
        )
    return value in _YES
