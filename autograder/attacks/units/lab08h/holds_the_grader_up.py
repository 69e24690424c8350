"""
what: tries all subsets of forty sizes, which would hold the grader up for days
source: own
expect: pass fail|invalid pass pass
"""


def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")
    best = (float("inf"), [])
    for mask in range(1 << len(sizes)):
        chosen = [i for i in range(len(sizes)) if mask >> i & 1]
        if sum(graph_mib[i] for i in chosen) > max_mib:
            continue
        total = 0.0
        for place, (eager, n) in enumerate(zip(eager_ms, traffic)):
            fit = [i for i in chosen if i >= place]
            total += n * (graph_ms[fit[0]] if fit else eager)
        best = min(best, (total, [sizes[i] for i in chosen]))
    return best[1]
