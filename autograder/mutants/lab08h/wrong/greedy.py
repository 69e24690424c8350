# Adds, again and again, the size that saves most.
def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    lists = (sizes, graph_ms, eager_ms, graph_mib, traffic)
    if not sizes or len({len(values) for values in lists}) > 1 or max_mib < 0:
        raise ValueError("one value for each size, and max_mib of 0 or more")
    if any(b <= a for a, b in zip(sizes, sizes[1:])):
        raise ValueError("sizes must go up")

    def cost(chosen):
        total = 0.0
        for size, eager, n in zip(sizes, eager_ms, traffic):
            fit = [b for b in chosen if b >= size]
            total += n * (graph_ms[sizes.index(min(fit))] if fit else eager)
        return total

    chosen = []
    while True:
        held = sum(graph_mib[sizes.index(size)] for size in chosen)
        fits = [s for s, m in zip(sizes, graph_mib) if s not in chosen and held + m <= max_mib]
        options = [(cost(chosen + [size]), size) for size in fits]
        if not options or min(options)[0] >= cost(chosen):
            return sorted(chosen)
        chosen.append(min(options)[1])
