# Right: a table over requests and drafts, as for a knapsack; shared out draft by draft.
def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError("old and now must have the same shape")
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError("a confidence must be between 0 and 1")
    batch, num_drafts = len(now), sum(len(block) for block in now)
    if len(cost_ms) <= batch + num_drafts:
        raise ValueError("the cost table ends before the most rows")

    best = [float(batch)]
    for block in old:
        gains, alive = [0.0], 1.0
        for confidence in block:
            alive *= confidence
            gains.append(gains[-1] + alive)
        wider = [0.0] * (len(best) + len(block))
        for used, tokens in enumerate(best):
            for more, gain in enumerate(gains):
                wider[used + more] = max(wider[used + more], tokens + gain)
        best = wider
    lengths, alive = [0] * batch, [1.0] * batch
    if not batch:
        return lengths
    thetas = [tokens / cost_ms[batch + used] for used, tokens in enumerate(best)]
    top = max(thetas)
    budget = next(k for k, theta in enumerate(thetas) if theta >= top * (1 - 1e-12))
    for _ in range(budget):
        open_ends = [r for r in range(batch) if lengths[r] < len(now[r])]
        chosen = min(open_ends, key=lambda r: (-alive[r] * now[r][lengths[r]], lengths[r], r))
        alive[chosen] *= now[chosen][lengths[chosen]]
        lengths[chosen] += 1
    return lengths
