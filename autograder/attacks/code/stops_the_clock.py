"""
what: every clock of the time module stands still
source: stock 05, timing 7
"""

import time

now = time.time()
for clock in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    setattr(time, clock, lambda: now)
    setattr(time, f"{clock}_ns", lambda: int(now * 1e9))
