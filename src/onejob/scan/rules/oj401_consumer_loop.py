"""OJ401 consumer-loop

What
    A loop that takes work from a queue or from another service. It is no schedule; it is listed
    because the same work may be handed to it twice.

Why it matters
    A queue redelivers what was not acknowledged in time. Two workers then do the same work.

Example
    ::

        while True:
            message = queue.receive()
            bill(message.body)

Instead
    Remember the message's id in the transaction of the work: ``if not app.first("queue",
    message_id, within=connection): return`` with onejob.

    Without onejob: insert the id into a table where it is the primary key, in that transaction,
    and look at the count.

When to ignore
    Doing the same work twice changes nothing.
"""

CODE = "OJ401"
NAME = "consumer-loop"
KINDS = ("consumer-loop", "consumer")
ADVICE = (
    "Remember each message's id in the transaction of its work: app.first(queue, message_id, "
    "within=connection) of onejob. Without onejob: a table with the id as its primary key."
)
