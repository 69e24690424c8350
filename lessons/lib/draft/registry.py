"""Names of the methods a user can ask for. A new proposer adds one entry here and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.dflash import DFlashProposer, load_dflash
from lessons.lib.draft.dspark import DSparkProposer, load_dspark
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_file import SHIPPED, WEIGHTS, load_eagle3
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.draft.frozen_kv_mtp import FrozenKvMtpProposer, load_frozen_kv_mtp
from lessons.lib.draft.mtp import MtpProposer, load_mtp
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.packing import pack_net
from lessons.lib.draft.proposer import Proposer
from lessons.lib.draft.standalone import StandaloneProposer, load_standalone
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.tokenizer import Tokenizer

TARGET_ONLY = "none"

PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "ngram": NgramProposer,
    "ngram-tree": partial(NgramProposer, num_branches=3),
}


Load = Callable[[Path, LlamaModel, Tokenizer | None], Any]


@dataclass(frozen=True)
class Drafter:
    """A method with weights, made for one target.

    shipped: where the weights for the default model lie. load(path, model, its tokenizer): the
    network of a file or folder, read once a model and shared by its requests. propose(network,
    model, sampling): a fresh proposer for one request, which may draw as the request does.
    """

    shipped: Path
    load: Load
    propose: Callable[[Any, LlamaModel, SamplingParams], Proposer]


def shipped(method: str) -> Path:
    """Folder of a method's weights for the default model."""
    return WEIGHTS / f"{method}-smollm2-135m"


@cache
def _by_model(load: Callable[[Path, LlamaModel], Any]) -> Load:
    """A reader that needs no tokenizer."""
    return lambda path, model, tokenizer: load(path, model)


# On the held-out prompts trees of 8 nodes had as many tokens a round with 4 levels as with 6, whose
# passes took a third longer.
TREE_WIDTH = TREE_LEVELS = 4


def _eagle3(net: Eagle3Net, model: LlamaModel, sampling: SamplingParams) -> Proposer:
    return Eagle3Proposer(net, model.embedding, sampling)


def _eagle3_tree(net: Eagle3Net, model: LlamaModel, sampling: SamplingParams) -> Proposer:
    return Eagle3Proposer(net, model.embedding, sampling, TREE_WIDTH, TREE_LEVELS)


DRAFTERS: dict[str, Drafter] = {
    "standalone": Drafter(
        shipped("standalone"),
        load_standalone,
        lambda draft, model, sampling: StandaloneProposer(draft, sampling),
    ),
    "eagle3": Drafter(SHIPPED, _by_model(load_eagle3), _eagle3),
    "eagle3-tree": Drafter(SHIPPED, _by_model(load_eagle3), _eagle3_tree),
    "mtp": Drafter(shipped("mtp"), _by_model(load_mtp), MtpProposer),
    "frozen_kv_mtp": Drafter(
        shipped("frozen_kv_mtp"), _by_model(load_frozen_kv_mtp), FrozenKvMtpProposer
    ),
    "dflash": Drafter(shipped("dflash"), _by_model(load_dflash), DFlashProposer),
    "dspark": Drafter(shipped("dspark"), _by_model(load_dspark), DSparkProposer),
}

_networks: WeakKeyDictionary[LlamaModel, dict[tuple[Any, Path], Any]] = WeakKeyDictionary()


def method_names() -> list[str]:
    """All known methods, target-only first."""
    return [TARGET_ONLY, *PROPOSERS, *DRAFTERS]


def ready_methods() -> list[str]:
    """Those that need no weights, or have them."""
    return [m for m in method_names() if m not in DRAFTERS or DRAFTERS[m].shipped.exists()]


def check_method(method: str, weights: Path | None = None) -> None:
    """Raise InputError for an unknown method, or weights for one that has none."""
    if method not in method_names():
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(method_names())}")
    if weights is not None and method not in DRAFTERS:
        raise InputError(f"method {method!r} reads no weights: leave {weights} out")


def fits(method: str, model: LlamaModel) -> bool:
    """Whether the method's shipped weights, if it needs any, are there and made for this target."""
    check_method(method)
    try:
        make_proposer(method, model)
    except InputError:
        return False
    return True


def make_proposer(
    method: str,
    model: LlamaModel | None = None,
    sampling: SamplingParams | None = None,
    weights: Path | None = None,
    tokenizer: Tokenizer | None = None,
) -> Proposer | None:
    """A fresh proposer for one request of `model` with `sampling`, or None for target-only.

    weights: file or folder to read instead of the shipped one; where that is a whole model, the
    target's tokenizer is needed to compare the vocabularies. Raises InputError for an unknown
    method, one that needs a model and gets none, and weights that are missing or do not fit.
    """
    check_method(method, weights)
    if method in PROPOSERS:
        return PROPOSERS[method]()
    if method == TARGET_ONLY:
        return None
    if model is None:
        raise InputError(f"method {method!r} drafts for one target: give it the model")
    drafter = DRAFTERS[method]
    network = _network(method, weights or drafter.shipped, model, tokenizer)
    return drafter.propose(network, model, sampling or SamplingParams())


def _network(method: str, path: Path, model: LlamaModel, tokenizer: Tokenizer | None) -> Any:
    load = DRAFTERS[method].load
    known = _networks.setdefault(model, {})
    if (load, path) not in known:
        if not path.exists():
            raise InputError(
                f"no weights for {method}: {path} is not there; train them with "
                f"`python -m lessons.lib.train`, give others with --draft PATH, or choose another "
                "method"
            )
        network = load(path, model, tokenizer)
        if isinstance(network, nn.Module):
            pack_net(network, model)
        known[load, path] = network
    return known[load, path]
