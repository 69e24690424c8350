"""
what: returns a length that claims to be equal to every other and within all bounds
source: own
expect: fail|invalid fail|invalid fail|invalid fail|invalid
"""


class Any(int):
    def __eq__(self, other):
        return True

    def __le__(self, other):
        return True

    def __ge__(self, other):
        return True

    __hash__ = int.__hash__


def verify_lengths(old, now, cost_ms):
    return [Any(1000) for _ in now]
