"""A FastAPI shop in which every uvicorn worker is a replica, and each statement goes out once.

    onejob init
    uvicorn --workers 3 examples.fastapi_shop:web

``lifespan`` starts a replica in each worker's own loop, and drains it when the worker stops. Where
MAIL_URL is not set the mails are printed.
"""

from __future__ import annotations

import os
from typing import Any

import httpx
from fastapi import FastAPI

from onejob import App, AsyncRun

MAIL_URL = os.environ.get("MAIL_URL")

app = App(name="shop", lease=os.environ.get("EXAMPLE_LEASE", "12s"))
web = FastAPI(lifespan=app.lifespan)


@app.every(os.environ.get("EXAMPLE_EVERY", "1h"), catch_up="all", overlap="allow")
async def statement(run: AsyncRun) -> None:
    for customer in (1, 2, 3):
        await run.effect(
            f"statement:{customer}",
            send,
            customer,
            sender=run.replica,
            pass_key_as="idempotency_key",
            if_unknown="repeat",
            provider_keeps="24h",
        )


@app.job()
async def welcome(run: AsyncRun, customer: int) -> None:
    await run.effect(
        "welcome",
        send,
        customer,
        sender=run.replica,
        pass_key_as="idempotency_key",
        if_unknown="repeat",
        provider_keeps="24h",
    )


async def send(customer: int, *, sender: str, idempotency_key: str) -> str:
    """Ask the mail provider for one mail; return its receipt."""
    if MAIL_URL is None:
        print(f"mail to customer {customer}, key {idempotency_key}")
        return "printed"
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{MAIL_URL}/mail",
            json={"customer": customer},
            headers={"Idempotency-Key": idempotency_key, "X-Replica": sender},
        )
    answer.raise_for_status()
    return str(answer.json()["message"])


@web.post("/customers/{number}", status_code=202)
async def sign_up(number: int) -> dict[str, Any]:
    """Welcome a customer. Asked twice, with one number, it is one run and one mail."""
    asked = await welcome.using(key=f"customer-{number}").aenqueue(customer=number)
    return {"run": asked.run_id, "new": asked.created}


@web.get("/replica")
async def replica() -> dict[str, object]:
    status = app.status()
    return {"running": status.running, "text": str(status), "pid": os.getpid()}
