"""The pause exercise: a lease shorter than the pause of its holder, and what stops the damage.

"My lock has a 30-second TTL and the job pauses for 40 seconds. What can happen?" Here it happens,
with real processes: one holder stands still (SIGSTOP, as in a garbage collection, or a network that
stalls), another rightly takes over, and the first goes on where it was. Once for each way to guard
a write: five ways, of which two let nothing stale land.
"""
