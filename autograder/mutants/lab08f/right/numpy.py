# Right: with numpy, by broadcasting.
import numpy as np


def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    lens, count = np.array(context_lens, dtype=int), len(anchors)
    if count == 0 or len(lens) != count or block_size < 2:
        raise ValueError("one context length for each anchor, and blocks of 2 rows or more")
    if lens.min() < 0 or lens.max() > num_slots:
        raise ValueError("a context does not fit its slots")
    token_ids = np.full((count, block_size), mask_token_id)
    token_ids[:, 0] = anchors
    positions = lens[:, None] + np.arange(block_size)
    same = np.eye(count, dtype=bool)
    slots = same[:, :, None] & (np.arange(num_slots) < lens[:, None])
    rows = np.repeat(same, block_size, axis=1)
    mask = np.concatenate([slots.reshape(count, -1), rows], axis=1)
    return token_ids.ravel(), positions.ravel(), np.repeat(mask, block_size, axis=0)
