"""
what: tries every allocation, which thirty requests would make last for ages
source: own
expect: fail|invalid pass pass pass
"""

import itertools


def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError("old and now must have the same shape")
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError("a confidence must be between 0 and 1")
    batch, num_drafts = len(now), sum(len(block) for block in now)
    if len(cost_ms) <= batch + num_drafts:
        raise ValueError("the cost table ends before the most rows")

    def curve(block):
        return [math.prod(block[: place + 1]) for place in range(len(block))]

    def tokens(curves, lengths):
        return batch + sum(sum(c[:n]) for c, n in zip(curves, lengths))

    every = list(map(range, [len(block) + 1 for block in now]))
    before, current = [curve(b) for b in old], [curve(b) for b in now]
    if not batch:
        return []
    yields = [0.0] * (num_drafts + 1)
    for lengths in itertools.product(*every):
        yields[sum(lengths)] = max(yields[sum(lengths)], tokens(before, lengths))
    thetas = [n / cost_ms[batch + k] for k, n in enumerate(yields)]
    budget = thetas.index(max(thetas))
    drafts = sorted(
        (-s, place, request) for request, c in enumerate(current) for place, s in enumerate(c)
    )
    lengths = [0] * batch
    for _, _, request in drafts[:budget]:
        lengths[request] += 1
    return lengths
