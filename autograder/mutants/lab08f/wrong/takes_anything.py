# Checks none of its arguments.
def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    owners = range(len(anchors))
    token_ids, positions, mask = [], [], []
    for request, (anchor, length) in enumerate(zip(anchors, context_lens)):
        token_ids += [anchor] + [mask_token_id] * (block_size - 1)
        positions += range(length, length + block_size)
        slots = [o == request and s < length for o in owners for s in range(num_slots)]
        rows = [o == request for o in owners for _ in range(block_size)]
        mask += [slots + rows for _ in range(block_size)]
    return token_ids, positions, mask
