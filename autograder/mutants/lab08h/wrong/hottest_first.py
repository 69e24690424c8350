# Takes the most frequent sizes first.
def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")
    chosen, held = [], 0
    for n, size, mib in sorted(zip(traffic, sizes, graph_mib), reverse=True):
        if n and held + mib <= max_mib:
            chosen.append(size)
            held += mib
    return sorted(chosen)
