"""Lets the target answer prompts, in batches, and keeps what it wrote in a token file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.engine import Engine
from lessons.lib.train.data import Sample, read_samples, write_samples
from lessons.lib.train.prompts import draw_prompt

_CHUNK = 64  # answers between two writes of the file
_TEMPERATURES = (0.0, 0.0, 0.8)  # two thirds greedy, as drafts mostly are judged


def generate(
    engine: Engine, count: int, seed: int, path: Path, max_new_tokens: int = 144
) -> list[Sample]:
    """Fill `path` with the answers to prompts 0 .. count - 1, and return them; goes on where the
    file ends.

    Must hold: a file that is there was begun with the same seed.
    """
    samples = read_samples(path) if path.exists() else []
    for index, sample in enumerate(samples[:8]):
        prompt = _prompt(engine, seed, index)[1]
        if sample.token_ids[: sample.prompt_len] != prompt:
            raise InputError(f"{path}: was begun with another seed or library; choose another file")
    bar = tqdm(total=count, initial=len(samples), unit="text", desc="the target writes")
    while len(samples) < count:
        indices = range(len(samples), min(count, len(samples) + _CHUNK))
        samples += _answers(engine, indices, seed, max_new_tokens)
        write_samples(samples, path)
        bar.update(len(samples) - bar.n)
    return samples


def _answers(
    engine: Engine, indices: Sequence[int], seed: int, max_new_tokens: int
) -> list[Sample]:
    """All of them run side by side, as many at a time as the engine takes."""
    prompts, names = [_prompt(engine, seed, index) for index in indices], []
    for index, (_, ids) in zip(indices, prompts, strict=True):
        temperature = _TEMPERATURES[index % len(_TEMPERATURES)]
        sampling = SamplingParams(temperature, seed=seed * 1_000_003 + index)
        names.append(engine.add_request(ids, max_new_tokens, sampling))
    while engine.has_work:
        engine.step()
    return [
        Sample([*ids, *engine.take_result(name).token_ids], len(ids), kind)
        for (kind, ids), name in zip(prompts, names, strict=True)
    ]


def _prompt(engine: Engine, seed: int, index: int) -> tuple[str, list[int]]:
    kind, text = draw_prompt(seed, index)
    message = [{"role": "user", "content": text}]
    return kind, engine.tokenizer.apply_chat_template(message)
