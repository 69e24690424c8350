"""
what: forks twice, clears its environment and outlives whoever started it
source: own
carries: right
needs: bubblewrap
"""

import os
import sys

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import time; time.sleep(60)  # specdec-canary-daemon"
        os.execve(sys.executable, [sys.executable, "-c", code], {})
    os._exit(0)
