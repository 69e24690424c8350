"""transformers' greedy decoding of the same file: what our target-only decoding is held against.

transformers is a tool of the instructor. Without it there is no peer, and a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

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
