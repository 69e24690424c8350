# Right: with torch, as the training code has it.
import torch


def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    if not anchors or len(anchors) != len(context_lens) or block_size < 2:
        raise ValueError("one context length for each anchor, and blocks of 2 rows or more")
    if min(context_lens) < 0 or max(context_lens) > num_slots:
        raise ValueError("a context does not fit its slots")
    count, lens = len(anchors), torch.tensor(context_lens)
    ids = torch.full((count, block_size), mask_token_id)
    ids[:, 0] = torch.tensor(anchors)
    positions = (lens[:, None] + torch.arange(block_size)).flatten()
    block = torch.arange(count).repeat_interleave(block_size)
    region = torch.arange(count).repeat_interleave(num_slots)
    live = (torch.arange(num_slots) < lens[:, None]).flatten()
    context = (block[:, None] == region) & live
    own = block[:, None] == block
    return ids.flatten().tolist(), positions.tolist(), torch.cat([context, own], -1).int().tolist()
