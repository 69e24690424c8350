# Counts nothing for steps that no bucket serves.
def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")
    tables = [{0: (0.0, [])}]
    for end in range(1, len(sizes) + 1):
        table = {}
        for start, before in enumerate(tables):
            cost = sum(traffic[start:end]) * graph_ms[end - 1]
            for held, (total, chosen) in before.items():
                now = held + graph_mib[end - 1]
                new = (total + cost, [*chosen, sizes[end - 1]])
                if now <= max_mib and (now not in table or new < table[now]):
                    table[now] = new
        tables.append(table)
    options = []
    for end, table in enumerate(tables):
        tail = 0.0
        options += [(total + tail, chosen) for total, chosen in table.values()]
    return min(options)[1]
