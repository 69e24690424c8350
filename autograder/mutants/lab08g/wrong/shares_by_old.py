# Shares the budget out by the old confidences.
def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError("old and now must have the same shape")
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError("a confidence must be between 0 and 1")
    batch, num_drafts = len(now), sum(len(block) for block in now)
    if len(cost_ms) <= batch + num_drafts:
        raise ValueError("the cost table ends before the most rows")

    def likeliest(blocks):
        drafts = [
            (-math.prod(block[: place + 1]), place, request)
            for request, block in enumerate(blocks)
            for place in range(len(block))
        ]
        return sorted(drafts)

    budget, tokens, best = 0, batch, batch / cost_ms[batch] if batch else 0.0
    for count, (lost, _, _) in enumerate(likeliest(old), start=1):
        tokens -= lost
        if tokens / cost_ms[batch + count] > best:
            budget, best = count, tokens / cost_ms[batch + count]
    lengths = [0] * batch
    for _, _, request in likeliest(old)[:budget]:
        lengths[request] += 1
    return lengths
