"""One every-second schedule in each library, as its documentation says: ``benchmarks.ticks``."""
