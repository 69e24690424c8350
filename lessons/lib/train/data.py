"""Token sequences to train on: where they come from, what must not be in them, in which order."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from kernels.runtime import InputError

SELFGEN = Path(__file__).with_name("selfgen.npz")  # see selfgen.md beside it
_ARRAYS = ("prompt_ids", "prompt_lens", "response_ids", "response_lens", "kind")
_OVERLAP = 10  # so many tokens in common make two texts one
_HELD_OUT_EVERY = 24
_BUCKET = 8  # batches that are sorted by length together


@dataclass(frozen=True)
class Sample:
    """A text. Tokens from prompt_len on are what the target wrote, and what a drafter learns."""

    token_ids: list[int]
    prompt_len: int
    kind: str

    @property
    def num_response(self) -> int:
        """Tokens to learn from."""
        return len(self.token_ids) - self.prompt_len


def read_samples(path: Path) -> list[Sample]:
    """Samples of a token file (.npz): prompt_ids and response_ids end to end, their lengths in
    prompt_lens and response_lens, and kind, the category of each."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in _ARRAYS}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a token file ({error})") from error
    prompts = np.split(arrays["prompt_ids"], np.cumsum(arrays["prompt_lens"], dtype=np.int64)[:-1])
    ends = np.cumsum(arrays["response_lens"], dtype=np.int64)
    responses = np.split(arrays["response_ids"], ends[:-1])
    return [
        Sample([*prompt.tolist(), *response.tolist()], len(prompt), str(kind))
        for prompt, response, kind in zip(prompts, responses, arrays["kind"], strict=True)
    ]


def write_samples(samples: Sequence[Sample], path: Path) -> None:
    """Inverse of `read_samples`; token ids must fit 16 bits."""
    prompts = [sample.token_ids[: sample.prompt_len] for sample in samples]
    responses = [sample.token_ids[sample.prompt_len :] for sample in samples]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        prompt_ids=np.array(list(chain.from_iterable(prompts)), dtype=np.uint16),
        response_ids=np.array(list(chain.from_iterable(responses)), dtype=np.uint16),
        prompt_lens=np.array([len(ids) for ids in prompts], dtype=np.uint16),
        response_lens=np.array([len(ids) for ids in responses], dtype=np.uint16),
        kind=np.array([sample.kind for sample in samples]),
    )


def without_overlap(
    samples: Sequence[Sample], texts: Iterable[Sequence[int]], length: int = _OVERLAP
) -> list[Sample]:
    """Samples that have no run of `length` tokens in common with any of the token texts."""
    forbidden = {run for text in texts for run in _runs(text, length)}
    return [s for s in samples if forbidden.isdisjoint(_runs(s.token_ids, length))]


def split_held_out(count: int) -> tuple[list[int], list[int]]:
    """Indices of (train, held out): of texts in a row, which may resemble each other, one in 24 is
    held."""
    held_out = list(range(0, count, _HELD_OUT_EVERY))
    return [index for index in range(count) if index % _HELD_OUT_EVERY], held_out


def frequent_ids(samples: Iterable[Sample], count: int, vocab_size: int) -> torch.Tensor:
    """The `count` ids that responses use most [count] int64 ascending; what is missing is filled
    up with the lowest ids, which a BPE merged first because they were frequent elsewhere."""
    uses = Counter(chain.from_iterable(s.token_ids[s.prompt_len :] for s in samples))
    order = [token for token, _ in uses.most_common()]
    order += [token for token in range(vocab_size) if token not in uses]
    return torch.tensor(sorted(order[:count]))


def batches(samples: Sequence[Sample], size: int, seed: int) -> Iterator[list[int]]:
    """Batches of indices without end, an epoch after the other; texts of similar length stand
    together so that little is padded. The same seed gives the same batches."""
    epoch = 0
    while True:
        rng = np.random.default_rng([seed, epoch])
        order = rng.permutation(len(samples))
        groups: list[list[int]] = []
        for start in range(0, len(order), size * _BUCKET):
            bucket = sorted(
                order[start : start + size * _BUCKET], key=lambda i: _length(samples, i)
            )
            groups += [bucket[i : i + size] for i in range(0, len(bucket), size)]
        for index in rng.permutation(len(groups)):
            yield groups[index]
        epoch += 1


def _length(samples: Sequence[Sample], index: int) -> int:
    return len(samples[index].token_ids)


def _runs(ids: Sequence[int], length: int) -> Iterator[tuple[int, ...]]:
    return (tuple(ids[i : i + length]) for i in range(len(ids) - length + 1))
