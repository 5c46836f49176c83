"""schedule: a job at each second of the minute, and one at an interval."""

import os
import time

import effect
import schedule

for second in range(60):
    schedule.every().minute.at(f":{second:02}").do(effect.effect, "secondly", 0.1)
time.sleep(0.3 * effect.NUMBER)
schedule.every(1).seconds.do(effect.effect, "often")
if effect.GUARDED:
    effect.app().guard(schedule)
effect.effect("ready")
pause = 0.05
if "STALL" in os.environ and effect.NUMBER == 0:
    effect.wait_for(3, "ready")
    # What is due by now is older than the others, who would not keep it in mind.
    schedule.run_pending()
    effect.stall()
    pause = 0.001  # it is the first to see a tick
elif "STALL" in os.environ:
    pause = 0.2
while True:
    schedule.run_pending()
    time.sleep(pause)
