"""
what: returns a float found in the caller's variables or anywhere in the interpreter
source: timing 8, timing 12
expect: fail fail fail fail
"""

import gc
import sys


def floats_nearby():
    frame = sys._getframe(2)
    while frame:
        yield from (value for value in frame.f_locals.values() if type(value) is float)
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) in (list, tuple):
            yield from (value for value in thing if type(value) is float and 1 < value < 13)


def expected_tokens_per_round(conditional_acceptance):
    return next(floats_nearby(), 2.0)
