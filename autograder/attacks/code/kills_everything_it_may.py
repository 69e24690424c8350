"""
what: sends SIGKILL to every process that it may kill, its parent first
source: own
needs: bubblewrap
expect: fail fail fail fail
"""

import os
import signal

os.kill(os.getppid(), signal.SIGKILL)
os.kill(-1, signal.SIGKILL)
