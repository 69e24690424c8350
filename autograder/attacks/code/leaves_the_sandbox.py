"""
what: makes namespaces of its own, mounts over the system and looks through other processes' roots
source: own
needs: bubblewrap
"""

import ctypes
import glob
import os

libc = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_MOUNT, NEW_NET = 0x10000000, 0x00020000, 0x40000000
libc.unshare(NEW_USER | NEW_MOUNT | NEW_NET)
libc.mount(b"none", b"/usr", b"tmpfs", 0, None)
libc.mount(None, b"/", None, 32 | 4096, None)  # remount writable
for root in glob.glob("/proc/[0-9]*/root"):
    for place in ("tmp", "root", "var/tmp", "dev/shm"):
        try:
            with open(f"{root}/{place}/specdec-canary-escaped", "w", encoding="utf-8") as file:
                file.write("out")
        except OSError:
            pass
    print(glob.glob(f"{root}/*/*/gradebook.db"))
for number in range(3, 1024):
    try:
        os.fchdir(number)
    except OSError:
        pass
