"""
what: a thread and a process of its own keep caches and cores warm while the other side is timed
source: timing 22
expect: fail
"""

import os
import threading
import time


def keep_warm():
    stock = bytearray(1 << 20)
    while True:
        sum(stock[::64])
        time.sleep(0.01)


threading.Thread(target=keep_warm, daemon=True).start()
if os.fork() == 0:
    keep_warm()


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    return "baseline", 1.0
