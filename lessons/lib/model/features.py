"""Hidden states that a forward leaves behind for a drafter.

Layer id i means what ENTERS layer i, before its norm (SGLang's convention); id `num_layers` is what
leaves the last layer, before the final norm. Checkpoints that count a layer's OUTPUT name the same
state i - 1. Off by one here raises no error and only costs acceptance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from kernels.runtime import InputError


class FeatureCapture:
    """Handed to one forward, which fills it. It copies nothing until rows are asked for."""

    def __init__(self, layer_ids: Iterable[int]) -> None:
        self.layer_ids = frozenset(layer_ids)
        self._hidden: dict[int, torch.Tensor] = {}

    def keep(self, layer_id: int, hidden: torch.Tensor) -> None:
        """For the forward: hidden [total_rows, hidden] that enters the layer, kept if wanted."""
        if layer_id in self.layer_ids:
            self._hidden[layer_id] = hidden

    def rows(self, layer_ids: Sequence[int], rows: Sequence[int]) -> torch.Tensor:
        """[len(rows), len(layer_ids) * hidden] of the batch's rows, layers in the order given."""
        missing = [layer for layer in layer_ids if layer not in self._hidden]
        if missing:
            raise InputError(f"the forward kept no hidden state of layer {missing[0]}")
        index = torch.tensor(rows, device=self._hidden[layer_ids[0]].device)
        return torch.cat([self._hidden[layer][index] for layer in layer_ids], -1)


def check_layer_ids(layer_ids: Sequence[int], num_layers: int) -> None:
    """Raise InputError for an id the target does not have."""
    for layer in layer_ids:
        if not 0 <= layer <= num_layers:
            raise InputError(f"feature layer {layer} is outside the target's 0 to {num_layers}")


def eagle3_layers(num_layers: int) -> tuple[int, int, int]:
    """The low, middle and high layer whose inputs EAGLE-3 fuses: 2, L // 2, L - 3."""
    return 2, num_layers // 2, num_layers - 3
