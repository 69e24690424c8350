# Right: says of every row and column who owns it, then compares owners.
def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    if not anchors or len(anchors) != len(context_lens) or block_size < 2:
        raise ValueError("one context length for each anchor, and blocks of 2 rows or more")
    if min(context_lens) < 0 or max(context_lens) > num_slots:
        raise ValueError("a context does not fit its slots")
    requests = range(len(anchors))
    row_owners = [request for request in requests for _ in range(block_size)]
    slot_owners = [
        request if slot < context_lens[request] else None
        for request in requests
        for slot in range(num_slots)
    ]
    token_ids, positions = [], []
    for anchor, length in zip(anchors, context_lens):
        token_ids.extend([anchor, *[mask_token_id] * (block_size - 1)])
        positions.extend(length + place for place in range(block_size))
    columns = slot_owners + row_owners
    return token_ids, positions, [[owner == own for owner in columns] for own in row_owners]
