"""Texts of the tiny target, its view of them, and trainers of any recipe."""

import functools
import tempfile
from pathlib import Path

import torch

from lessons.lib.engine import Engine
from lessons.lib.train.data import Sample
from lessons.lib.train.recipes import cached_layers
from lessons.lib.train.target_cache import TargetCache
from lessons.lib.train.trainer import Trainer, TrainSettings
from tests.batch_kit import random_ids, tiny_model

TINY = TrainSettings(num_tokens=16_000, batch_size=8, learning_rate=3e-3, num_warmup=500)
VOCABULARY = 97
MASK = 96


@functools.cache
def tiny_samples(count=64, prompt_len=6, num_new=24):
    """Texts that the tiny target wrote, greedily."""
    engine = Engine(*tiny_model("llama"))
    samples = []
    for seed in range(count):
        prompt = random_ids(prompt_len, seed)
        result = engine.generate(prompt, num_new, ignore_eos=True)
        samples.append(Sample([*prompt, *result.token_ids], prompt_len, "tiny"))
    return samples


def texts_without_mask():
    """The same without token MASK, so that blocks can be masked with it."""
    return [
        Sample([min(token, MASK - 1) for token in sample.token_ids], sample.prompt_len, "tiny")
        for sample in tiny_samples()
    ]


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory()


def tiny_texts(samples=None):
    """All of every law is kept, so that what is learnt from it is exact."""
    model, _ = tiny_model("llama")
    layers = cached_layers(model.config.num_layers)
    samples = tiny_samples() if samples is None else samples
    return TargetCache(model, samples, layers, Path(_folder().name), top_k=VOCABULARY)


def tiny_trainer(maker, own, settings=TINY, samples=None):
    texts = tiny_texts(samples)
    torch.manual_seed(settings.seed)
    recipe = maker(tiny_model("llama")[0], own, texts.samples)
    return Trainer(recipe, texts, range(len(texts.samples)), settings)
