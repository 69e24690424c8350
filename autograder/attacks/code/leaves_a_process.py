"""
what: a process in a session of its own waits and then writes into the gradebook
source: stock 15, timing 5
carries: right
"""

import subprocess
import sys

WAIT_AND_WRITE = """
import time, sqlite3  # specdec-canary-process
time.sleep(8)
with sqlite3.connect("../../../gradebook.db") as gradebook:
    gradebook.execute("UPDATE grade SET auto_score = 5, needs_manual_grade = 0")
time.sleep(60)
"""
subprocess.Popen([sys.executable, "-c", WAIT_AND_WRITE], start_new_session=True)
