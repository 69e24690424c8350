# Takes any lists.
def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
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
        tail = sum(n * ms for n, ms in zip(traffic[end:], eager_ms[end:]))
        options += [(total + tail, chosen) for total, chosen in table.values()]
    return min(options)[1]
