"""
what: writes until the disk is full, wherever it may write
source: own
carries: right
needs: bubblewrap
"""

import os

for place in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~")):
    try:
        for number in range(12):
            with open(f"{place}/specdec-canary-{number}", "wb") as file:
                file.truncate(0)
                for _ in range(60):
                    file.write(b"z" * (1 << 20))
    except OSError:
        pass
