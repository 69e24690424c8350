"""transformers with the same weights: what our own decoding is held against.

transformers is a tool of the instructor. Without it there is no peer, and a reason.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from lessons.lib.draft.net_file import load_weights, read_config
from lessons.lib.draft.standalone_net import StandaloneConfig, StandaloneNet
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import default_model_path


class Peer:
    """A loaded model of transformers' own class and its `generate`."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.name = f"transformers {metadata.version('transformers')}"

    @torch.inference_mode()
    def decode(self, prompt_ids: Sequence[int], count: int) -> tuple[list[int], float]:
        """(token ids, ms per token): exactly `count` greedy tokens, timed from the first on."""
        ids, clock = torch.tensor([list(prompt_ids)], device=self.model.device), _Clock()
        out = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            streamer=clock,
        )
        first, last = clock.times[1], clock.times[-1]  # times[0] is the prompt
        return out[0, ids.shape[1] :].tolist(), (last - first) / (count - 1) * 1e3


class _Clock:
    """A streamer that keeps when tokens came; they are on the host by then."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(perf_counter())

    def end(self) -> None:
        """Nothing to flush."""


def load_assistant(path: Path, peer: Peer, model: LlamaModel) -> tuple[Peer | None, str | None]:
    """The small model of assisted generation: a Hugging Face folder, or a standalone drafter of
    this course, whose layers transformers then runs between embedding and head of `peer`.

    Raises InputError for a drafter that does not fit `model`, which `peer` has to be.
    """
    if (path / "config.json").exists():
        return load_peer(path, model.dtype, model.device)
    net = StandaloneNet(StandaloneConfig(**read_config(path)), model)
    load_weights(net, path)
    config = copy.deepcopy(peer.model.config)
    config.num_hidden_layers = len(net.layers)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: len(net.layers)]
    small = type(peer.model)(config).to(model.device, model.dtype)
    small.model.embed_tokens, small.lm_head = peer.model.model.embed_tokens, peer.model.lm_head
    missing, unknown = small.model.load_state_dict(net.state_dict(), strict=False)
    assert not unknown and set(missing) <= {"embed_tokens.weight"}, (missing, unknown)
    return Peer(small), None


def load_peer(
    path: str | Path | None, dtype: torch.dtype, device: torch.device
) -> tuple[Peer | None, str | None]:
    """(peer, None), or (None, why there is none). `path` as for `load_model`."""
    source = default_model_path() if path is None else Path(path)
    try:
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        place = {"gguf_file": source.name} if source.is_file() else {}
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            source.parent if source.is_file() else source, dtype=dtype, **place
        )
    except ImportError as error:
        return None, f"transformers cannot be used here: {error}"
    return Peer(model.to(device)), None
