# Right: takes the next draft of each block from a heap.
import heapq


def verify_lengths(old, now, cost_ms):
    if [len(block) for block in old] != [len(block) for block in now]:
        raise ValueError("old and now must have the same shape")
    if not all(0 <= c <= 1 for block in [*old, *now] for c in block):
        raise ValueError("a confidence must be between 0 and 1")
    batch, num_drafts = len(now), sum(len(block) for block in now)
    if len(cost_ms) <= batch + num_drafts:
        raise ValueError("the cost table ends before the most rows")

    def in_order(blocks):
        heap = [(-block[0], 0, request) for request, block in enumerate(blocks) if block]
        heapq.heapify(heap)
        while heap:
            lost, place, request = heapq.heappop(heap)
            yield -lost, request
            if place + 1 < len(blocks[request]):
                heapq.heappush(heap, (lost * blocks[request][place + 1], place + 1, request))

    if not batch:
        return []
    yields = [float(batch)]
    for survival, _ in in_order(old):
        yields.append(yields[-1] + survival)
    thetas = [tokens / cost_ms[batch + k] for k, tokens in enumerate(yields)]
    budget, lengths = thetas.index(max(thetas)), [0] * batch
    for (_, request), _ in zip(in_order(now), range(budget)):
        lengths[request] += 1
    return lengths
