"""smtplib: a message is taken over when its data is acknowledged, and not before."""

from __future__ import annotations

from typing import Any, Final

from onejob.core.meaning import Meaning, of_reply


def _of_recipients(error: Any) -> Meaning:
    """Every recipient was refused: for good only where each was."""
    said = {of_reply(code) for code, _ in error.recipients.values()}
    return said.pop() if len(said) == 1 else Meaning.REFUSED


RULES: Final[dict[str, Any]] = {
    # Before the message: the greeting, the login, what the server cannot do.
    "smtplib.SMTPConnectError": lambda error: Meaning.NOT_SENT,
    "smtplib.SMTPHeloError": lambda error: Meaning.NOT_SENT,
    "smtplib.SMTPNotSupportedError": lambda error: Meaning.NOT_SENT,
    "smtplib.SMTPAuthenticationError": lambda error: Meaning.REFUSED,
    # Answers to the envelope, and to the message itself.
    "smtplib.SMTPSenderRefused": lambda error: of_reply(error.smtp_code),
    "smtplib.SMTPRecipientsRefused": _of_recipients,
    "smtplib.SMTPDataError": lambda error: of_reply(error.smtp_code),
    # A server that hangs up may have done so after the last dot.
    "smtplib.SMTPException": lambda error: Meaning.UNKNOWN,
}
