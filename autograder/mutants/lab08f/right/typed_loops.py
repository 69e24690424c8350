# Right: type hints, a table of False that is then filled.
Inputs = tuple[list[int], list[int], list[list[bool]]]


class BadPass(ValueError):
    pass


def block_inputs(
    anchors: list[int],
    context_lens: list[int],
    num_slots: int,
    block_size: int,
    mask_token_id: int,
) -> Inputs:
    count = len(anchors)
    if count == 0 or count != len(context_lens):
        raise BadPass(f"{count} anchors, {len(context_lens)} contexts")
    if block_size < 2 or any(length not in range(num_slots + 1) for length in context_lens):
        raise BadPass("a block or a context of an impossible size")
    width = count * (num_slots + block_size)
    token_ids: list[int] = []
    positions: list[int] = []
    mask: list[list[bool]] = []
    for request in range(count):
        first_slot, first_row = request * num_slots, count * num_slots + request * block_size
        for place in range(block_size):
            token_ids.append(anchors[request] if place == 0 else mask_token_id)
            positions.append(context_lens[request] + place)
            row = [False] * width
            for slot in range(context_lens[request]):
                row[first_slot + slot] = True
            for other in range(block_size):
                row[first_row + other] = True
            mask.append(row)
    return token_ids, positions, mask
