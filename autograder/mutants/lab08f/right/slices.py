# Right: runs of equal entries, put together by multiplication.
def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    count = len(anchors)
    if not (count == len(context_lens) > 0 and block_size > 1):
        raise ValueError("one context length for each anchor, and blocks of 2 rows or more")
    if sorted([0, *context_lens, num_slots]) != [0, *sorted(context_lens), num_slots]:
        raise ValueError("a context does not fit its slots")

    def mask_row(request):
        length, after = context_lens[request], count - request - 1
        region = [True] * length + [False] * (num_slots - length)
        context = [False] * (request * num_slots) + region + [False] * (after * num_slots)
        return (
            context
            + [False] * (request * block_size)
            + [True] * block_size
            + [False] * (after * block_size)
        )

    ids = sum(([anchor] + (block_size - 1) * [mask_token_id] for anchor in anchors), [])
    places = [length + place for length in context_lens for place in range(block_size)]
    return ids, places, [mask_row(number // block_size) for number in range(count * block_size)]
