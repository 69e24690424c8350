"""A draft vocabulary: fewer tokens than the target's, and a map from its ids to the target's.

d2t [draft_vocab] int64 holds for each draft id the offset to its target id, as the authors of
EAGLE-3 store it.
"""

from __future__ import annotations

import torch

from kernels.runtime import InputError


def target_ids(d2t: torch.Tensor) -> torch.Tensor:
    """Target id of every draft id [draft_vocab] int64."""
    return d2t + torch.arange(len(d2t), device=d2t.device)


def check_d2t(d2t: torch.Tensor, vocab_size: int, source: str) -> None:
    """Raise InputError for a map that leaves the target's vocabulary or meets one id twice."""
    ids = target_ids(d2t)
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise InputError(f"{source}: d2t maps outside the target's vocabulary")
    if ids.unique().numel() != ids.numel():
        raise InputError(f"{source}: d2t maps two draft ids to one target id")
