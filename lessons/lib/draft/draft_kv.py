"""Keys and values of a layer of a drafter: dense, one request's, never shared."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class DraftKV:
    """Rows 0 .. length - 1 rest on the target's features; rows behind them on guesses, and are
    dropped by `truncate` before the next round."""

    def __init__(self, num_kv_heads: int, head_dim: int, like: torch.Tensor) -> None:
        """Empty; dtype and device of `like`."""
        self.length = 0
        self._keys = like.new_empty(0, num_kv_heads, head_dim)
        self._values = torch.empty_like(self._keys)

    @property
    def num_bytes(self) -> int:
        """Bytes of both buffers."""
        return 2 * self._keys.numel() * self._keys.element_size()

    @property
    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [length, kv_heads, head_dim], for reading until the next change."""
        return self._keys[: self.length], self._values[: self.length]

    def append(self, key: torch.Tensor, value: torch.Tensor) -> None:
        """Rows [n, kv_heads, head_dim] behind the present ones; the buffers double when full."""
        end = self.length + len(key)
        if end > len(self._keys):
            self._grow(max(end, 2 * len(self._keys)))
        self._keys[self.length : end] = key
        self._values[self.length : end] = value
        self.length = end

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows."""
        assert 0 <= length <= self.length, f"{length} of {self.length} rows"
        self.length = length

    def attend(self, query: torch.Tensor, mask: torch.Tensor | None, scale: float) -> torch.Tensor:
        """query [n, heads, head_dim], mask [n, length] bool of what each row sees, None for all
        -> [n, heads * head_dim]."""
        parts = [part.transpose(0, 1)[None] for part in (query, *self.rows)]
        mixed = F.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], attn_mask=mask, scale=scale, enable_gqa=True
        )
        return mixed[0].transpose(0, 1).flatten(1)

    def _grow(self, capacity: int) -> None:
        for name in ("_keys", "_values"):
            old = getattr(self, name)
            new = old.new_empty(capacity, *old.shape[1:])
            new[: self.length] = old[: self.length]
            setattr(self, name, new)
