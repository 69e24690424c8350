# Takes any input.
def verify_lengths(old, now, cost_ms):
    batch, num_drafts = len(now), sum(len(block) for block in now)

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
    for _, _, request in likeliest(now)[:budget]:
        lengths[request] += 1
    return lengths
