"""RQ's cron: a job at each second, and one at an interval; what is enqueued is noted."""

import os
import time

import effect
import rq.cron
import rq_jobs
from redis import Redis
from rq import Queue

enqueue = Queue.enqueue


def noted(queue: object, function: object, *args: object, **kwargs: object) -> object:
    name = function.__name__
    effect.effect(name, 0.1 if name == "secondly" else 0)
    return enqueue(queue, function, *args, **kwargs)


Queue.enqueue = noted
rq.cron.register(rq_jobs.secondly, "default", cron="* * * * * *")
rq.cron.register(rq_jobs.often, "default", interval=1)
if effect.GUARDED:
    effect.app().guard(rq.cron)
time.sleep(0.3 * effect.NUMBER)
rq.cron.create_cron(Redis.from_url(os.environ["REDIS"])).start()
