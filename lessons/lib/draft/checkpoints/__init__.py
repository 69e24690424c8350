"""Published drafters: a folder as it comes from Hugging Face, and a network of this course.

`config.json` says which layout it is; the layouts differ in the names of tensors, in how they
number the target's layers and in what they leave to the target. A reader returns the same networks
that this course trains, so everything behind it is shared. Anything unknown is an error: a drafter
that is read wrongly still runs, and only guesses badly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kernels.runtime import InputError
from lessons.lib.draft.checkpoints import block, eagle3, mtp
from lessons.lib.draft.checkpoints.folder import Checkpoint
from lessons.lib.draft.dflash_net import DFlashNet
from lessons.lib.draft.dspark_net import DSparkNet
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.draft.mtp_net import MtpNet
from lessons.lib.model.llama import LlamaModel

DraftNet = Eagle3Net | DFlashNet | MtpNet
Reader = Callable[[Checkpoint, LlamaModel], DraftNet]
Kind = TypeVar("Kind", Eagle3Net, DFlashNet, DSparkNet)
_METHODS = {Eagle3Net: "eagle3", DFlashNet: "dflash", DSparkNet: "dspark", MtpNet: "mtp"}

_BY_ARCHITECTURE: dict[str, Reader] = {
    "LlamaForCausalLMEagle3": eagle3.read_authors,
    "Eagle3LlamaForCausalLM": eagle3.read_authors,
    "LlamaForCausalLM": eagle3.read_authors,  # with a draft vocabulary: SafeAILab
    "Qwen3Eagle3Model": eagle3.read_deepspec,
    "DFlashDraftModel": block.read_dflash,
    "Qwen3DSparkModel": block.read_dspark,
    "DSparkDraftModel": block.read_dspark,
}
_SPECULATORS: dict[str, Reader] = {
    "eagle3": eagle3.read_speculators,
    "dflash": block.read_speculators,
    "dspark": block.read_speculators,
    "mtp": mtp.read_mtp,
}


def is_published(path: Path) -> bool:
    """Whether this is a folder of the kind read here; this course saves block drafters in one file,
    config and all."""
    return (path / "config.json").exists()


def load_as(kind: type[Kind], folder: Path, model: LlamaModel) -> Kind:
    """As `load_draft`, for a method that runs this kind of network and no other."""
    net = load_draft(folder, model)
    if type(net) is not kind:
        raise InputError(
            f"{folder}: holds a drafter for the method {_METHODS[type(net)]}, not {_METHODS[kind]}"
        )
    return net


def load_module(folder: Path, model: LlamaModel) -> MtpNet:
    """The MTP module of a folder, which may be a whole model: that says nothing of its modules."""
    return mtp.read_mtp(Checkpoint.open(folder), model)


def load_draft(folder: Path, model: LlamaModel) -> DraftNet:
    """The drafter of a folder, for this target, in its dtype and on its device.

    Raises InputError for a layout that is not known, a setting that no network here computes, a
    tensor that is missing, unknown or of a wrong shape (it is named), and another target.
    """
    checkpoint = Checkpoint.open(folder)
    return find_reader(checkpoint)(checkpoint, model)


def find_reader(checkpoint: Checkpoint) -> Reader:
    """The layout of a folder. Raises InputError when it is none of those known."""
    config = checkpoint.config
    kind = config.get("speculators_model_type")
    if kind is not None:
        if kind not in _SPECULATORS:
            known = ", ".join(_SPECULATORS)
            raise checkpoint.fail(
                f"speculators_model_type {kind!r} is not supported; known: {known}"
            )
        return _SPECULATORS[kind]
    architecture = (config.get("architectures") or ["none"])[0]
    if architecture == "LlamaForCausalLM" and "draft_vocab_size" not in config:
        raise checkpoint.fail("no draft_vocab_size: this is a whole Llama or an older EAGLE")
    if architecture not in _BY_ARCHITECTURE:
        known = ", ".join(_BY_ARCHITECTURE)
        raise checkpoint.fail(f"architecture {architecture!r} is not supported; known: {known}")
    return _BY_ARCHITECTURE[architecture]
