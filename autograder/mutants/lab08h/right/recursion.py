# Right: recursion with a memory of its own, from the largest size down.
from functools import cache
from math import inf


def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")

    @cache
    def best(end, room):
        """Cheapest way to serve sizes[:end] when sizes[end - 1] must have a graph."""
        if end == 0:
            return 0.0, ()
        room -= graph_mib[end - 1]
        if room < 0:
            return inf, ()
        options = []
        for start in range(end):
            cost, chosen = best(start, room)
            here = sum(traffic[start:end]) * graph_ms[end - 1]
            options.append((cost + here, (*chosen, sizes[end - 1])))
        return min(options)

    results = []
    for end in range(len(sizes) + 1):
        cost, chosen = best(end, max_mib)
        rest = sum(n * ms for n, ms in zip(traffic[end:], eager_ms[end:]))
        results.append((cost + rest, list(chosen)))
    return min(results)[1]
