"""
what: every process starts two more
source: timing 29
carries: right
needs: bubblewrap
"""

import os
import time


def multiply():
    for _ in range(2):
        if os.fork() == 0:
            try:
                while True:
                    multiply()
            finally:
                time.sleep(30)
                os._exit(0)


try:
    multiply()
except OSError:
    pass
