"""Tiny EAGLE-3 drafters for the tests: random, or trained for seconds on the tiny target."""

import functools

import torch

from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.engine import Engine
from lessons.lib.train.eagle3 import Eagle3Recipe, Eagle3Settings
from tests.batch_kit import tiny_model
from tests.train_kit import TINY, tiny_trainer

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


EAGLE3 = Eagle3Settings(draft_vocab_size=97, num_unrolled=3, num_drawn=97)


def eagle3_trainer(settings=TINY):
    return tiny_trainer(Eagle3Recipe, EAGLE3, settings)


@functools.cache
def trained_net():
    """A drafter of the tiny target that guesses well on texts it has seen."""
    trainer = eagle3_trainer()
    losses = list(trainer.run())
    return trainer.recipe.net.requires_grad_(False), losses
