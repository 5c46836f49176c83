"""Hold the write lock of a SQLite file for so many seconds, from a process of its own."""

from __future__ import annotations

import sqlite3
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
connection = sqlite3.connect(path, isolation_level=None, timeout=10)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(seconds)
connection.execute("ROLLBACK")
connection.close()
