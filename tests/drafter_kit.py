"""Random networks and proposers of the chain drafters beside EAGLE-3, for the tests they share."""

import random

import torch

from lessons.lib.draft.frozen_kv_mtp import FrozenKvMtpProposer
from lessons.lib.draft.frozen_kv_net import FrozenKvConfig, FrozenKvNet
from lessons.lib.draft.mtp import MtpProposer
from lessons.lib.draft.mtp_net import MtpConfig, MtpNet
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.standalone import DraftModel, StandaloneProposer
from lessons.lib.draft.standalone_net import StandaloneConfig, StandaloneNet
from tests.batch_kit import Case, tiny_model

KINDS = ("standalone", "mtp", "frozen_kv_mtp")


def random_net(kind, model=None, seed=0):
    """Weights large enough that a wrong position, layer or token changes the guesses."""
    model = model or tiny_model()[0]
    torch.manual_seed(seed)
    if kind == "standalone":
        net = StandaloneNet(StandaloneConfig.of(model.config, 2), model)
    elif kind == "mtp":
        net = MtpNet(MtpConfig.of(model.config), model)
    else:
        # Neither in order nor one beside the other, so that a wrong map shows.
        config = FrozenKvConfig.of(model.config, 2)
        net = FrozenKvNet(FrozenKvConfig(config.body, (2, 0), config.num_target_layers), model)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 2 / parameter.shape[-1] ** 0.5)
    return net.requires_grad_(False)


def draft_model(net, model, num_kv_tokens=4096):
    count = sum(parameter.numel() for parameter in net.parameters())
    return DraftModel(net.to_model(model), 4 * count, num_kv_tokens)


def make_drafter(kind, net, sampling=None, model=None):
    """A proposer of float32 weights."""
    model = model or tiny_model()[0]
    if kind == "standalone":
        draft = net if isinstance(net, DraftModel) else draft_model(net, model)
        return StandaloneProposer(draft, sampling)
    return {"mtp": MtpProposer, "frozen_kv_mtp": FrozenKvMtpProposer}[kind](net, model, sampling)


class Recorder:
    """Remembers what a proposer proposed behind which context; whatever else it does stays.

    With a text its drafts are the truth up to a random place, so that some are kept.
    """

    def __init__(self, proposer, text=None, seed=0):
        self.inner, self.log, self._text, self._seed = proposer, [], text, seed
        for name in ("feature_layers", "observe_features", "read_target_kv"):
            if hasattr(proposer, name):
                setattr(self, name, getattr(proposer, name))

    @property
    def memory_bytes(self):
        return self.inner.memory_bytes

    def propose(self, context_ids, num_draft_tokens):
        proposal = self.inner.propose(context_ids, num_draft_tokens)
        self.log.append((list(context_ids), num_draft_tokens, proposal))
        if self._text is None:
            return proposal
        drafts = proposal.token_ids
        truth = self._text[len(context_ids) :][: len(drafts)]
        num_true = random.Random(f"{self._seed} {len(context_ids)}").randint(0, len(truth))
        return DraftProposal(truth[:num_true] + drafts[num_true:])

    def observe(self, token_ids):
        self.inner.observe(token_ids)

    def forget(self):
        self.inner.forget()


class DrafterCase(Case):
    """A request of the batch tests; its method is the kind of the drafter, all share a network."""

    nets = {}

    def proposer(self):
        if self.method not in self.nets:
            net = random_net(self.method)
            shared = draft_model(net, tiny_model()[0]) if self.method == "standalone" else net
            self.nets[self.method] = shared
        made = make_drafter(self.method, self.nets[self.method], self.sampling)
        self.made = Recorder(made, [*self.prompt, *self.expected], self.seed)
        return self.made
