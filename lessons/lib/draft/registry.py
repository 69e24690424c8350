"""Names of the methods a user can ask for. A new proposer adds one line here and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.dflash import DFlashProposer, load_dflash
from lessons.lib.draft.dflash_net import DFlashNet
from lessons.lib.draft.dspark import DSparkProposer, load_dspark
from lessons.lib.draft.dspark_net import DSparkNet
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_file import SHIPPED, WEIGHTS, load_eagle3
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import Proposer
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.weight_cache import is_intact

TARGET_ONLY = "none"

PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "ngram": NgramProposer,
    "ngram-tree": partial(NgramProposer, num_branches=3),
}


_eagle3_nets: WeakKeyDictionary[LlamaModel, Eagle3Net] = WeakKeyDictionary()  # read once a model


def _eagle3(model: LlamaModel, sampling: SamplingParams, width: int) -> Proposer:
    if model not in _eagle3_nets:
        _eagle3_nets[model] = load_eagle3(SHIPPED, model)
    return Eagle3Proposer(_eagle3_nets[model], model.embedding, sampling, width)


_BLOCK_FILES = {
    method: WEIGHTS / f"{method}-smollm2-135m" / "model.safetensors"
    for method in ("dflash", "dspark")
}
_dflash_nets: WeakKeyDictionary[LlamaModel, DFlashNet] = WeakKeyDictionary()
_dspark_nets: WeakKeyDictionary[LlamaModel, DSparkNet] = WeakKeyDictionary()


def _shipped_block(method: str) -> Path:
    path = _BLOCK_FILES[method]
    if not path.exists():
        raise InputError(
            f"no weights for {method} yet: {path} is not there; "
            f"save a trained network to it with save_{method}, or choose another method"
        )
    if not is_intact(path):
        raise InputError(f"{path}: does not match its .sha256; fetch it again")
    return path


def _dflash(model: LlamaModel, sampling: SamplingParams) -> Proposer:
    if model not in _dflash_nets:
        _dflash_nets[model] = load_dflash(_shipped_block("dflash"), model)
    return DFlashProposer(_dflash_nets[model], model, sampling)


def _dspark(model: LlamaModel, sampling: SamplingParams) -> Proposer:
    if model not in _dspark_nets:
        _dspark_nets[model] = load_dspark(_shipped_block("dspark"), model)
    return DSparkProposer(_dspark_nets[model], model, sampling)


# Those that draft for one target only, and may draw as the request does.
MODEL_PROPOSERS: dict[str, Callable[[LlamaModel, SamplingParams], Proposer]] = {
    "eagle3": partial(_eagle3, width=1),
    "eagle3-tree": partial(_eagle3, width=4),
    "dflash": _dflash,
    "dspark": _dspark,
}
_WEIGHTS: dict[str, Path] = {"eagle3": SHIPPED, "eagle3-tree": SHIPPED} | _BLOCK_FILES


def method_names() -> list[str]:
    """All known methods, target-only first."""
    return [TARGET_ONLY, *PROPOSERS, *MODEL_PROPOSERS]


def ready_methods() -> list[str]:
    """Those that need no weights, or have them."""
    return [m for m in method_names() if m not in _WEIGHTS or _WEIGHTS[m].exists()]


def check_method(method: str) -> None:
    """Raise InputError for an unknown method."""
    if method not in method_names():
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(method_names())}")


def make_proposer(
    method: str, model: LlamaModel | None = None, sampling: SamplingParams | None = None
) -> Proposer | None:
    """A fresh proposer for one request of `model` with `sampling`, or None for target-only.

    Raises InputError for an unknown method, or one that needs a model and gets none.
    """
    check_method(method)
    if method in PROPOSERS:
        return PROPOSERS[method]()
    if method == TARGET_ONLY:
        return None
    if model is None:
        raise InputError(f"method {method!r} reads the target's features: give it the model")
    return MODEL_PROPOSERS[method](model, sampling or SamplingParams())
