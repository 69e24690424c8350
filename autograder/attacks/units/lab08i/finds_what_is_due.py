"""
what: looks through the frames above it for the planted faults
source: own
expect: pass pass pass fail|invalid fail|invalid fail|invalid
"""

import sys


def find_faults(points):
    frame = sys._getframe()
    while frame is not None:
        for name in ("names", "right", "found"):
            if name in frame.f_locals:
                return sorted(frame.f_locals[name])
        frame = frame.f_back
    return []
