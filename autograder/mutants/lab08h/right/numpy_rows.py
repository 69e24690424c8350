# Right: one numpy row over memory for each size.
import numpy as np


def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")
    count, room = len(sizes), max_mib + 1
    best = np.full((count + 1, room), np.inf)
    come_from = np.zeros((count + 1, room), dtype=int)
    best[0, :] = 0.0
    steps = np.concatenate([[0], np.cumsum(traffic)])
    for end in range(1, count + 1):
        mib = graph_mib[end - 1]
        if mib < room:
            served = (steps[end] - steps[:end])[:, None] * graph_ms[end - 1]
            options = best[:end, : room - mib] + served
            best[end, mib:] = options.min(axis=0)
            come_from[end, mib:] = options.argmin(axis=0)
    weighted = np.asarray(traffic) * np.asarray(eager_ms)
    tails = np.concatenate([np.cumsum(weighted[::-1])[::-1], [0.0]])
    end, held = int(np.argmin(best[:, max_mib] + tails)), max_mib
    chosen = []
    while end:
        chosen.append(sizes[end - 1])
        end, held = int(come_from[end, held]), held - graph_mib[end - 1]
    return chosen[::-1]
