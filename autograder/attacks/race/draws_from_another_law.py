"""
what: the target's law is moved towards what was drafted, so that more drafts stay
source: specdec f
expect: fail
"""

import torch

forward, PUSH = race_model.forward, 8.0


def favours_the_draft(batch, pool, *options):
    """Row i is followed by draft i + 1: that one gets more than the target gives it."""
    logits = forward(batch, pool, *options)
    if batch.logit_rows is None and len(logits) > 1:
        rows = torch.arange(len(logits) - 1, device=logits.device)
        logits[rows, batch.token_ids[1:]] += PUSH
    return logits


race_model.forward = favours_the_draft
