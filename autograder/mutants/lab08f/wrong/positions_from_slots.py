# Lets a block begin behind the padding.
def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    if not anchors or len(anchors) != len(context_lens) or block_size < 2:
        raise ValueError("one context length for each anchor, and blocks of 2 rows or more")
    if not all(0 <= length <= num_slots for length in context_lens):
        raise ValueError("a context does not fit its slots")
    owners = range(len(anchors))
    token_ids, positions, mask = [], [], []
    for request, (anchor, length) in enumerate(zip(anchors, context_lens)):
        token_ids += [anchor] + [mask_token_id] * (block_size - 1)
        positions += range(num_slots, num_slots + block_size)
        slots = [o == request and s < length for o in owners for s in range(num_slots)]
        rows = [o == request for o in owners for _ in range(block_size)]
        mask += [slots + rows for _ in range(block_size)]
    return token_ids, positions, mask
