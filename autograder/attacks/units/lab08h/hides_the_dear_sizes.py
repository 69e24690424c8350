"""
what: changes the traffic that it is given, so that what it serves badly seems never to occur
source: own
expect: fail fail fail fail
"""


def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    if not sizes or sizes != sorted(set(sizes)) or len(sizes) != len(graph_ms) or max_mib < 0:
        raise ValueError
    for place in range(1, len(traffic)):
        traffic[place] = 0
    traffic[0] = 1
    return [sizes[0]] if graph_mib[0] <= max_mib else []
