"""
what: many processes each keep far less memory than one may take, and far too much together
source: own
carries: right
expect: fail|invalid fail|invalid fail fail|invalid
"""

import os
import time

for _ in range(40):
    if os.fork() == 0:
        os.setsid()
        kept = bytearray(b"x" * (200 << 20))  # written to, so that it counts
        time.sleep(60)
        os._exit(0)
time.sleep(4)
