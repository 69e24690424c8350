"""
what: overwrites the cost table that it is given, so that everything seems to be free
source: own
expect: fail fail fail fail
"""


def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError
    if len(cost_ms) <= len(now) + sum(map(len, now)):
        raise ValueError
    cost_ms[:] = [1.0] * len(cost_ms)
    for block in now:
        block[:] = [1.0] * len(block)
    return [len(block) for block in now]
