"""Tiny EAGLE-3 drafters for the tests: random, or trained for seconds on the tiny target."""

import functools

import torch

from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.engine import Engine
from lessons.lib.train.data import Sample
from lessons.lib.train.eagle3 import Eagle3Trainer, TrainSettings
from tests.batch_kit import random_ids, tiny_model

DRAFT_VOCABULARY = 60


def tiny_net(seed=0, draft_vocab_size=DRAFT_VOCABULARY, kind="llama"):
    """Random weights, lively enough that a wrong position or token changes the guesses."""
    model, _ = tiny_model(kind)
    torch.manual_seed(seed)
    net = Eagle3Net(Eagle3Config(model.config, draft_vocab_size, (1, 2, 0)))
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(model.config.vocab_size, generator=generator)[:draft_vocab_size]
    net.set_vocabulary(ids.sort().values)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
            else:
                parameter.copy_(1 + 0.3 * torch.randn(parameter.shape))
    return net.requires_grad_(False)


def proposer_of(net, **settings):
    return Eagle3Proposer(net, tiny_model("llama")[0].embedding, **settings)


def llama_engine(**settings):
    return Engine(*tiny_model("llama"), **settings)


@functools.cache
def tiny_samples(count=64, prompt_len=6, num_new=24):
    """Texts that the tiny target wrote, greedily."""
    engine = llama_engine()
    samples = []
    for seed in range(count):
        prompt = random_ids(prompt_len, seed)
        result = engine.generate(prompt, num_new, ignore_eos=True)
        samples.append(Sample([*prompt, *result.token_ids], prompt_len, "tiny"))
    return samples


TINY = TrainSettings(
    num_tokens=16_000,
    draft_vocab_size=97,
    batch_size=8,
    learning_rate=3e-3,
    num_warmup=500,
    num_unrolled=3,
)


def tiny_trainer(settings=TINY):
    return Eagle3Trainer(tiny_model("llama")[0], tiny_samples(), settings)


@functools.cache
def trained_net():
    """A drafter of the tiny target that guesses well on texts it has seen."""
    trainer = tiny_trainer()
    losses = list(trainer.run())
    return trainer.net.requires_grad_(False), losses
