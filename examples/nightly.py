"""A nightly digest on as many workers as you like: each customer gets one email a night.

    onejob init
    onejob worker examples.nightly:app        # three times: three terminals, or three machines

Kill a worker in the middle of the night: another one takes the run over, skips the customers who
have their mail, and asks again with the same key where nobody knows. Where MAIL_URL is not set the
mails are printed.
"""

from __future__ import annotations

import json
import os
from urllib.request import Request, urlopen

from onejob import App, Run

MAIL_URL = os.environ.get("MAIL_URL")

app = App(name="nightly", lease=os.environ.get("EXAMPLE_LEASE", "12s"))

# Every night counts, also one in which everything was down, and one that takes until the next.
every_night = app.cron("0 2 * * *", tz="Europe/Berlin", catch_up="all", overlap="allow")
if "EXAMPLE_EVERY" in os.environ:  # so that you, and the tests, need not wait for the night
    every_night = app.every(os.environ["EXAMPLE_EVERY"], catch_up="all", overlap="allow")


@every_night
def digest(run: Run) -> None:
    for customer in customers():
        # Written down before and after the call. Died in between: called again with the same key,
        # under which the provider delivers once.
        run.effect(
            f"digest:{customer}",
            send,
            customer,
            sender=run.replica,
            pass_key_as="idempotency_key",
            if_unknown="repeat",
            provider_keeps="24h",
        )


def customers() -> range:
    return range(1, 6)


def send(customer: int, *, sender: str, idempotency_key: str) -> str:
    """Ask the mail provider for one mail; return its receipt."""
    if MAIL_URL is None:
        print(f"mail to customer {customer}, key {idempotency_key}")
        return "printed"
    mail = Request(
        f"{MAIL_URL}/mail",
        data=json.dumps({"customer": customer}).encode(),
        headers={"Idempotency-Key": idempotency_key, "X-Replica": sender},
    )
    with urlopen(mail, timeout=10) as answer:
        return str(json.load(answer)["message"])
