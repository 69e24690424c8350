"""
what: finds the socket to the grader and answers in the worker's place, in its own format
source: own
expect: fail|invalid fail|invalid fail|invalid fail|invalid
"""

import json
import os
import socket
import stat


def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


sockets = [number for number in range(3, 64) if is_socket(number)]
if sockets:
    channel = socket.socket(fileno=os.dup(sockets[0]))
    channel.setblocking(True)
    for number in range(2, 200):
        reply = {"id": number, "value": 2.64, "args": [[]], "points": 2}
        channel.sendall(json.dumps(reply).encode() + b"\n")
