"""Networks and proposers for the tests of DFlash and DSpark, and DFlash once more, slowly."""

import random
from dataclasses import replace

import torch

from lessons.lib.draft.dflash import DFlashProposer
from lessons.lib.draft.dflash_net import DFlashConfig, DFlashNet
from lessons.lib.draft.dspark import DSparkProposer
from lessons.lib.draft.dspark_net import DSparkConfig, DSparkNet
from lessons.lib.draft.proposer import DraftProposal, TargetKVReader
from lessons.lib.draft.target_kv import TargetKV
from lessons.lib.model.features import FeatureCapture
from lessons.lib.sampling import logits_to_probs
from lessons.lib.tree import DraftTree
from tests.batch_kit import Case, tiny_model
from tests.engine_models import empty_sequences, prepare_batch

FEATURE_LAYERS = (3, 1)  # not in ascending order, so that a swapped concatenation shows
BLOCK = 5
MASK = 96


def block_config(kind, target, has_qk_norm=True, body_changes=(), **changes):
    """Two layers whose sizes are not the target's where they may differ."""
    sizes = dict(num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16, intermediate_size=64)
    body = replace(target, **sizes | dict(body_changes), has_qk_norm=has_qk_norm)
    common = dict(feature_layers=FEATURE_LAYERS, block_size=BLOCK, mask_token_id=MASK) | changes
    if kind == "dflash":
        return DFlashConfig(body, **common)
    return DSparkConfig(body, **{"markov_rank": 6} | common)


def block_net(kind, target, seed=0, **changes):
    """A random network whose laws are lively and whose norms are not all ones."""
    torch.manual_seed(seed)
    net = {"dflash": DFlashNet, "dspark": DSparkNet}[kind](block_config(kind, target, **changes))
    if net.d2t is not None:
        ids = torch.randperm(target.vocab_size)[: len(net.d2t)].sort().values
        net.d2t.copy_(ids - torch.arange(len(ids)))
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 2 / parameter.shape[-1] ** 0.5)
    return net


def block_proposer(kind, sampling=None, model=None, **changes):
    model = model or tiny_model()[0]
    proposer = {"dflash": DFlashProposer, "dspark": DSparkProposer}[kind]
    return proposer(block_net(kind, model.config, **changes), model, sampling)


def target_features(model, ids, layers=FEATURE_LAYERS):
    """[len(ids), len(layers) * hidden] of a text computed in one piece."""
    pool, (kv,) = empty_sequences(model, 1, len(ids))
    capture = FeatureCapture(layers)
    model.forward(prepare_batch(pool, [(kv, DraftTree.chain(ids))]), pool, capture)
    return capture.rows(layers, range(len(ids)))


def informed(proposer, model, ids):
    """The proposer with all that the target knows of everything before the last token."""
    pool, (kv,) = empty_sequences(model, 1, len(ids))
    layers = getattr(proposer, "feature_layers", ())
    capture, known = FeatureCapture(layers), len(ids) - 1
    model.forward(prepare_batch(pool, [(kv, DraftTree.chain(ids[:-1]))]), pool, capture)
    pool.commit(kv, known)
    if layers:
        proposer.observe_features(0, capture.rows(layers, range(known)), ids[1:])
    if isinstance(proposer, TargetKVReader):
        proposer.read_target_kv(TargetKV(pool, kv))
    return proposer


class HalfRight:
    """A block proposer whose drafts are the truth up to a random place, so that some are kept.

    It changes tokens only, never the state: what is under test is the state.
    """

    def __init__(self, proposer, text, seed):
        self._text, self._seed, self._propose = text, seed, proposer.propose
        self.feature_layers, self.memory_bytes = proposer.feature_layers, proposer.memory_bytes
        self.observe, self.observe_features = proposer.observe, proposer.observe_features
        self.forget = proposer.forget

    def propose(self, context_ids, num_draft_tokens):
        proposal = self._propose(context_ids, num_draft_tokens)
        drafts = proposal.token_ids
        truth = self._text[len(context_ids) :][: len(drafts)]
        num_true = random.Random(f"{self._seed} {len(context_ids)}").randint(0, len(truth))
        mixed = truth[:num_true] + drafts[num_true:]
        return DraftProposal(mixed, confidences=proposal.confidences)


class BlockCase(Case):
    """A request of the batch tests; its method is the kind of the proposer."""

    def proposer(self):
        text = [*self.prompt, *self.expected]
        self.made = block_proposer(self.method)
        return HalfRight(self.made, text, self.seed)


def block_embeds(model, anchor_token, num_rows=BLOCK):
    """Embeddings of anchor and masks [num_rows, hidden]."""
    return model.embedding[torch.tensor([anchor_token] + [MASK] * (num_rows - 1))]


# --- the slow way --------------------------------------------------------------------------------
def slow_block_hidden(net, features, embeds, shift=0):
    """Hidden states of one block, query by query and head by head, in float64.

    features of all positions before the anchor; `shift` moves the block by so many positions.
    """
    weights = {name: tensor.double() for name, tensor in net.state_dict().items()}
    body, anchor = net.config.body, len(features)

    def norm(rows, name):
        scale = (rows**2).mean(-1, keepdim=True).add(body.rms_norm_eps).rsqrt()
        return rows * scale * weights[f"{name}.weight"]

    def turned(vector, position):
        half = body.head_dim // 2
        angles = [position * body.rope_theta ** (-2 * i / body.head_dim) for i in range(half)]
        turn = torch.polar(torch.ones(half).double(), torch.tensor(angles).double())
        pairs = torch.complex(vector[:half], vector[half:]) * turn
        return torch.cat((pairs.real, pairs.imag))

    def heads(rows, name, layer):
        split = (rows @ weights[f"{layer}.{name}_proj.weight"].T).unflatten(-1, (-1, body.head_dim))
        has_norm = name != "v" and body.has_qk_norm
        return norm(split, f"{layer}.{name}_norm") if has_norm else split

    context = norm(features.double() @ weights["fc.weight"].T, "hidden_norm")
    hidden = embeds.double()
    places = [*range(anchor), *(anchor + shift + row for row in range(len(embeds)))]
    for index in range(body.num_layers):
        layer = f"layers.{index}"
        rows = norm(hidden, f"{layer}.input_layernorm")
        both, mixed = torch.cat((context, rows)), []
        query, key, value = (
            heads(part, name, f"{layer}.self_attn")
            for part, name in ((rows, "q"), (both, "k"), (both, "v"))
        )
        for row in range(len(rows)):
            for head in range(body.num_heads):
                group = head // body.group_size
                asked = turned(query[row, head], places[anchor + row])
                keys = torch.stack(
                    [turned(k, p) for k, p in zip(key[:, group], places, strict=True)]
                )
                scores = (keys @ asked) / body.head_dim**0.5
                mixed.append(scores.softmax(0) @ value[:, group])
        attended = torch.stack(mixed).reshape(len(rows), -1)
        hidden = hidden + attended @ weights[f"{layer}.self_attn.o_proj.weight"].T
        rows = norm(hidden, f"{layer}.post_attention_layernorm")
        gate = torch.nn.functional.silu(rows @ weights[f"{layer}.mlp.gate_proj.weight"].T)
        up = rows @ weights[f"{layer}.mlp.up_proj.weight"].T
        hidden = hidden + (gate * up) @ weights[f"{layer}.mlp.down_proj.weight"].T
    return norm(hidden, "norm")


def slow_steps(net, model, features, ids, drafts, sampling, temperatures=(1.0,) * BLOCK, kind=None):
    """Laws and confidences of the given drafts of DSpark behind `ids`, one matrix product at a
    time; `kind` overrides the kind of Markov head."""
    weights = {name: tensor.double() for name, tensor in net.state_dict().items()}
    config = net.config
    embedding = weights.get("embed_tokens.weight", model.embedding.double())
    head = weights.get("lm_head.weight", model.lm_head.double())
    masks = [config.mask_token_id] * (config.block_size - 1)
    hidden = slow_block_hidden(net, features, embedding[[ids[-1], *masks]])
    rows = hidden if config.anchor_predicts else hidden[1:]
    state = torch.zeros(config.markov_rank).double()
    laws, confidences = [], []
    for row, before, temperature in zip(rows, [ids[-1], *drafts[:-1]], temperatures, strict=False):
        markov = weights["markov_head.markov_w1.weight"][before]
        latent, state = _slow_head(kind or config.markov_head_type, weights, row, markov, state)
        logits = head @ row + weights["markov_head.markov_w2.weight"] @ latent
        full = torch.full((model.config.vocab_size,), -torch.inf).double()
        offsets = net.d2t if net.d2t is not None else torch.zeros(len(logits)).long()
        for index, offset in enumerate(offsets.tolist()):
            full[index + offset] = logits[index]
        laws.append(logits_to_probs(full, sampling))
        if "confidence_head.proj.weight" in weights:
            seen = torch.cat((row, markov)) if config.confidence_head_with_markov else row
            logit = weights["confidence_head.proj.weight"][0] @ seen
            logit = logit + weights["confidence_head.proj.bias"][0]
            confidences.append(float(1 / (1 + (-logit / temperature).exp())))
    return torch.stack(laws), confidences


def _slow_head(kind, weights, row, markov, state):
    """What W2 takes, and the next state."""
    rank = len(markov)
    if kind == "gated":
        inputs = torch.cat((row, markov))
        gate = weights["markov_head.gate_proj.weight"] @ inputs
        return markov / (1 + (-gate - weights["markov_head.gate_proj.bias"]).exp()), state
    if kind == "rnn":
        inputs = torch.cat((state, markov, row))
        joint = weights["markov_head.joint_proj.weight"] @ inputs
        joint = joint + weights["markov_head.joint_proj.bias"]
        keep = 1 / (1 + (-joint[:rank]).exp())
        candidate, out = torch.tanh(joint[rank : 2 * rank]), torch.tanh(joint[2 * rank :])
        return out, keep * state + (1 - keep) * candidate
    return markov, state
