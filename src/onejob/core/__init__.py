"""Decisions and arithmetic: values in, values out.

Nothing here reads a clock, draws a random number, logs, sleeps or does I/O. ``now`` and jitter are
arguments, so each rule can be read aloud and tested by a table.
"""
