"""A network that only drafts reads its weights as the target does: packed (`kernels.linear`).

A draft pass at batch 1 is time to read weights, and most of them are the head's.
"""

from __future__ import annotations

from torch import Tensor, nn

from kernels.linear import linear, pack
from lessons.lib.model.llama import LlamaModel


class PackedLinear(nn.Module):
    """An nn.Linear without bias that is not trained any more."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(pack(weight.detach()), requires_grad=False)

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return linear(rows, self.weight)


def pack_net(net: nn.Module, target: LlamaModel) -> None:
    """Pack the matrices of a loaded network, and share the target's packed head where it uses the
    target's head. The network can still be read, by `to_dense()`, but not be saved or trained."""
    for module in list(net.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear) and child.bias is None:
                setattr(module, name, PackedLinear(child.weight))
        if getattr(module, "head", None) is target.lm_head:
            module.head = target.packed_head
