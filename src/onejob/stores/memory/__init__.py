"""A store in this process's memory: the model that every other store is compared with.

Naive on purpose, plain enough to be obviously right: dicts and lists, one lock around each command,
no index and no cleverness. For tests and for the simulator; nothing survives the process.
"""

from onejob.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
