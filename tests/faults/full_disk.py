"""A process that may write no file beyond a size: to SQLite that is a disk that is full.

It is a replica, and enqueues until the store says no; then the bound is lifted, and it goes on.
Prints one JSON document of what it saw.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import threading

from onejob import App, Retry
from onejob.errors import OnejobError

url, bound = sys.argv[1], int(sys.argv[2])
app = App(url, name="shop", lease="2s", poll="100ms")
done: list[str] = []


@app.job(retry=Retry(attempts=1))
def keep(key: str, filling: str) -> None:
    done.append(key)


troubled = threading.Event()
app.events.listen(lambda event: troubled.set() if event.name == "store.trouble" else None)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
app.start()
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (bound, most))
made: list[int] = []
error = ""
for place in range(200):
    try:
        given = keep.using(key=str(place)).enqueue(str(place), "x" * 100_000)
    except OnejobError as failure:
        error = f"{type(failure).__name__}: {failure}"
        break
    made.append(given.run_id)
else:
    place = -1
stopped_at = str(place)
replica_met_it = troubled.wait(10)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
# The same key again: what was refused has left nothing behind, and is made now.
again = keep.using(key=stopped_at).enqueue(stopped_at, "y")
outcomes = [app.runs.wait(id, timeout="20s").outcome for id in [*made, again.run_id]]
print(
    json.dumps(
        {
            "error": error,
            "made": len(made),
            "replica_met_it": replica_met_it,
            "created": again.created,
            "outcomes": outcomes,
            "done": sorted(set(done)) == sorted([*map(str, range(len(made))), stopped_at]),
            "twice": len(done) - len(set(done)),
            "runs": len(app.runs.find(limit=1000)),
            "running": app.status().running,
        }
    )
)
app.close()
