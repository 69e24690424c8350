# Right: keeps for each size only the choices that no other beats.
def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")
    fronts = [[(0, 0.0, ())]]
    for end in range(1, len(sizes) + 1):
        found = []
        for start, front in enumerate(fronts):
            here = sum(traffic[start:end]) * graph_ms[end - 1]
            for held, cost, chosen in front:
                if held + graph_mib[end - 1] <= max_mib:
                    found.append(
                        (held + graph_mib[end - 1], cost + here, (*chosen, sizes[end - 1]))
                    )
        front, cheapest = [], float("inf")
        for held, cost, chosen in sorted(found):
            if cost < cheapest:
                front.append((held, cost, chosen))
                cheapest = cost
        fronts.append(front)
    answer = (float("inf"), ())
    for end, front in enumerate(fronts):
        tail = sum(n * ms for n, ms in zip(traffic[end:], eager_ms[end:]))
        answer = min([answer, *((cost + tail, chosen) for _, cost, chosen in front)])
    return answer[1]
