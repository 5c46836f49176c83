"""botocore and boto3, which try again by themselves unless they are told not to."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.evidence import frames
from onejob.core.meaning import Meaning, of_status

#: Said with status 400, and no word on the request itself.
_THROTTLED: Final = ("Throttl", "RequestLimitExceeded", "TooManyRequests", "SlowDown")
_THROTTLED_TOO: Final = frozenset(
    {"ProvisionedThroughputExceededException", "PriorRequestNotComplete"}
)


def _unconnected(error: Any) -> Meaning:
    tries = [
        frame.variables.get("attempts")
        for frame in frames(error)
        if frame.module == "botocore.endpoint" and frame.function == "_send_request"
    ]
    # What an earlier try came to, botocore does not keep.
    return Meaning.NOT_SENT if tries in ([], [1]) else Meaning.UNKNOWN


def _of_answer(error: Any) -> Meaning:
    about = error.response.get("ResponseMetadata", {})
    if about.get("RetryAttempts", 0):
        return Meaning.UNKNOWN
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code.startswith(_THROTTLED) or code in _THROTTLED_TOO:
        return Meaning.REFUSED
    return of_status(about.get("HTTPStatusCode", 0))


RULES: Final[dict[str, Any]] = {
    "botocore.exceptions.EndpointConnectionError": _unconnected,
    "botocore.exceptions.ConnectTimeoutError": _unconnected,
    "botocore.exceptions.NoCredentialsError": _unconnected,
    "botocore.exceptions.PartialCredentialsError": _unconnected,
    "botocore.exceptions.CredentialRetrievalError": _unconnected,
    "botocore.exceptions.NoRegionError": _unconnected,
    "botocore.exceptions.ParamValidationError": _unconnected,
    "botocore.exceptions.ClientError": _of_answer,
    "botocore.exceptions.BotoCoreError": lambda error: Meaning.UNKNOWN,
}
