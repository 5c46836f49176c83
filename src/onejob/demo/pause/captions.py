"""What each way of the exercise shows, in a few words and in sentences."""

from __future__ import annotations

from onejob.demo.captions import Caption

CAPTIONS = {
    "bare-lock": Caption(
        "two writes, and the late release frees another's lock",
        "A lock with an expiry and nothing else. The second process rightly takes over; the first "
        "one's late write lands all the same, and its release frees the second one's lock, so that "
        "a third gets it too.",
    ),
    "token-at-write": Caption(
        "the late one writes first: both land",
        "Each write carries the fencing token, and the document refuses a lower one than it has "
        "seen. But it has seen nothing of the second process yet: the first writes first, late and "
        "under the older token, and then the second does.",
    ),
    "advisory-lock": Caption(
        "the server ends the silent transaction; both effects land",
        "PostgreSQL's own lock in a transaction that the server ends when its holder falls silent. "
        "The lock is freed in time, and what was written in that transaction is gone; but an "
        "effect outside of it, as a call to a provider is, lands twice.",
    ),
    "lease-fenced": Caption(
        "the late write is refused, by the holder itself and by the store",
        "The lease is checked, and locked, in the transaction that writes, and a new holder shows "
        "its token at the document when it takes the lock. The first one knows that its time is "
        "over before the store gives the lock away, and where it only has its number left, the "
        "document refuses it.",
    ),
    "lease-ledger": Caption(
        "the late write is found done: a duplicate, harmless",
        "The lock only saves work. What must land once has a key in the ledger, written in the "
        "same transaction as the effect: the first one finds its work done, whatever it believes "
        "of its lock.",
    ),
}
