"""Run inside a sandbox of its own: stock `nbgrader autograde` on one course, and what it left.

Prints one JSON object. Nothing here is ours to protect: the attack may change all of it.
"""

import json
import socket
import subprocess
import sys
import time

from autograder.attacks.traces import PORT, stray_processes

AUTOGRADE_S = 240
STRAY_S = 12  # longer than the attack that waits until grading is over


def main() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", int(PORT)))
    listener.listen()
    listener.setblocking(False)
    command = [sys.executable, "-m", "nbgrader", "autograde", sys.argv[1]]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=AUTOGRADE_S
    )
    left = bool(stray_processes())
    if left:
        time.sleep(STRAY_S)
    try:
        listener.accept()
        is_called = True
    except BlockingIOError:
        is_called = False
    print(json.dumps({"exit": done.returncode, "left_process": left, "called_home": is_called}))


if __name__ == "__main__":
    main()
