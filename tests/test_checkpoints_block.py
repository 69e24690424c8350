"""Published DFlash and DSpark drafters: every layout drafts what the slow computation makes of the
same tensors, fed by transformers' hidden states; a mistake in ids, order or maps would show."""

from dataclasses import dataclass

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import load_draft
from lessons.lib.draft.dflash import DFlashProposer, load_dflash
from lessons.lib.draft.dflash_net import DFlashNet
from lessons.lib.draft.dspark import DSparkProposer, load_dspark
from lessons.lib.draft.dspark_net import DSparkNet
from lessons.lib.draft.eagle3_file import load_eagle3
from lessons.lib.sampling import logits_to_probs
from tests.block_kit import MASK, block_net, slow_block_hidden, slow_steps
from tests.checkpoint_kit import (
    DRAFTED,
    HIDDEN,
    NUM_LAYERS,
    VOCABULARY,
    edit_config,
    features_of,
    recorded,
    sizes,
    target,
    write_checkpoint,
)

SAMPLING = SamplingParams(1.0, seed=2)
SEEN = 0.05  # a total variation that no rounding makes
BLOCK, RANK = 5, 8
OUTPUTS = [0, 2, 4]  # what leaves these layers ...
STATES = (1, 3, 5)  # ... stands here in transformers' list of hidden states


@dataclass
class Layout:
    """A checkpoint, the same weights in a network of the course, and where the layer ids are."""

    config: dict
    net: DFlashNet
    tensors: dict
    ids: list


def native(kind, **changes):
    body = dict(rope_theta=5000.0, rms_norm_eps=1e-5, intermediate_size=40)
    return block_net(kind, target().config, body_changes=body, feature_layers=STATES, **changes)


def frozen_copies(tensors):
    """What trainers save of the target beside the drafter."""
    model = target()
    copies = {"embed_tokens.weight": model.embedding, "lm_head.weight": model.lm_head}
    return tensors | {name: tensor.clone() for name, tensor in copies.items()}


def layer_sizes(**changes):
    return sizes("qwen3", 2, layer_types=["full_attention"] * 2, **changes)


def zlab(is_nested=False):
    net, ids = native("dflash"), list(OUTPUTS)
    inner = {"mask_token_id": MASK, "target_layer_ids": ids}
    config = {"architectures": ["DFlashDraftModel"], "num_target_layers": NUM_LAYERS}
    config |= layer_sizes() | {"dflash_config": inner}
    (inner if is_nested else config)["block_size"] = BLOCK
    return Layout(config, net, dict(net.state_dict()), ids)


def zlab_nested():
    """As of Qwen3.5: block_size inside dflash_config."""
    return zlab(is_nested=True)


def heads(rank, kind="vanilla", confidence=True):
    return {
        "markov_rank": rank,
        "markov_head_type": kind,
        "enable_confidence_head": confidence,
        "confidence_head_with_markov": confidence,
    }


def deepspec(kind="vanilla"):
    net, ids = native("dspark", markov_rank=RANK, markov_head_type=kind), list(OUTPUTS)
    config = {"architectures": ["Qwen3DSparkModel"], "num_target_layers": NUM_LAYERS}
    config |= layer_sizes() | heads(RANK, kind)
    config |= {"block_size": BLOCK, "mask_token_id": MASK, "target_layer_ids": ids}
    return Layout(config, net, frozen_copies(dict(net.state_dict())), ids)


def deepspec_gated():
    return deepspec("gated")


def deepspec_rnn():
    return deepspec("rnn")


def deepspec_dflash():
    """DeepSpec's DFlash is its DSpark without the heads: the anchor predicts."""
    net, ids = native("dflash", anchor_predicts=True), list(OUTPUTS)
    config = {"architectures": ["Qwen3DSparkModel"], "num_target_layers": NUM_LAYERS}
    config |= layer_sizes() | {"markov_rank": 0, "enable_confidence_head": False}
    config |= {"block_size": BLOCK, "mask_token_id": MASK, "target_layer_ids": ids}
    return Layout(config, net, frozen_copies(dict(net.state_dict())), ids)


def specforge():
    """Everything inside dflash_config; the confidence head shows in its loss weight alone."""
    net, ids = native("dspark", markov_rank=RANK), list(OUTPUTS)
    inner = heads(RANK) | {"projector_type": "dspark", "mask_token_id": MASK}
    del inner["enable_confidence_head"]
    inner |= {"confidence_head_alpha": 1.0, "target_layer_ids": ids, "attention_mode": "gqa"}
    config = {"architectures": ["DSparkDraftModel"], "block_size": BLOCK}
    config |= layer_sizes() | {"num_target_layers": NUM_LAYERS, "dflash_config": inner}
    return Layout(config, net, dict(net.state_dict()), ids)


def speculators(kind, **changes):
    ids = list(STATES)
    own = dict(has_embedding=True, draft_vocab_size=DRAFTED)
    net = native(kind, **own, **changes)
    config = {
        "architectures": ["DFlashSpeculator"],
        "speculators_model_type": kind,
        "transformer_layer_config": layer_sizes(),
        "draft_vocab_size": DRAFTED,
        "block_size": BLOCK,
        "mask_token_id": MASK,
        "aux_hidden_state_layer_ids": ids,
    }
    tensors = dict(net.state_dict())
    mapped = tensors["d2t"] + torch.arange(DRAFTED)
    tensors["t2d"] = torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, mapped, True)
    return Layout(config, net, tensors, ids)


def speculators_dflash():
    return speculators("dflash")


def speculators_full():
    """DFlash over the full vocabulary, with the copies that the converter writes."""
    layout = speculators("dflash")
    layout.net = native("dflash")
    layout.config["draft_vocab_size"] = VOCABULARY
    layout.tensors = frozen_copies(dict(layout.net.state_dict()))
    return layout


def speculators_dspark():
    layout = speculators("dspark", markov_rank=RANK)
    layout.config["markov_rank"] = RANK
    return layout


def speculators_dspark_from_mask():
    layout = speculators("dspark", markov_rank=RANK, anchor_predicts=False)
    layout.config |= {"markov_rank": RANK, "sample_from_anchor": False}
    return layout


LAYOUTS = [
    zlab,
    zlab_nested,
    deepspec,
    deepspec_gated,
    deepspec_rnn,
    deepspec_dflash,
    specforge,
    speculators_dflash,
    speculators_full,
    speculators_dspark,
    speculators_dspark_from_mask,
]


def written(tmp_path, layout):
    return write_checkpoint(tmp_path / "draft", layout.config, layout.tensors)


def slow_laws(net, context, drafts):
    features = features_of(context, STATES)[:-1]
    if isinstance(net, DSparkNet):
        return slow_steps(net, target(), features, context, drafts, SAMPLING)[0]
    embedding = target().embedding if net.embed_tokens is None else net.embed_tokens.weight
    rows = slow_block_hidden(net, features, embedding[[context[-1]] + [MASK] * (BLOCK - 1)])
    rows = rows if net.config.anchor_predicts else rows[1:]
    head = target().lm_head if net.lm_head is None else net.lm_head.weight
    full = torch.full((len(rows), VOCABULARY), -torch.inf).double()
    count = len(head)
    offsets = net.d2t if net.d2t is not None else torch.zeros(count).long()
    full[:, offsets + torch.arange(count)] = rows @ head.double().T
    return logits_to_probs(full, SAMPLING)


@torch.no_grad()
def distance(folder, layout):
    """Mean total variation between the laws that the loaded drafter drew from and the slow ones,
    over all drafts of a request."""
    net = load_draft(folder, target())
    make = DSparkProposer if isinstance(net, DSparkNet) else DFlashProposer
    found = []
    for context, proposal in recorded(make(net, target(), SAMPLING), SAMPLING, depth=BLOCK):
        expected = slow_laws(layout.net, context, proposal.token_ids)
        pairs = zip(proposal.draft_probs, expected, strict=False)
        found += [float((law - wanted).abs().sum() / 2) for law, wanted in pairs]
    return sum(found) / len(found)


@pytest.mark.parametrize("make", LAYOUTS)
def test_every_layout_drafts_what_the_slow_way_makes_of_its_tensors(make, tmp_path):
    layout = make()
    folder = written(tmp_path, layout)
    assert load_draft(folder, target()).config == layout.net.config
    assert distance(folder, layout) < 1e-4


@pytest.mark.parametrize(
    "make, shift", [(zlab, 1), (deepspec, -1), (specforge, 1), (speculators_dflash, -1)]
)
def test_layer_ids_off_by_one_would_show(make, shift, tmp_path):
    layout = make()
    layout.ids[:] = [max(0, min(i + shift, NUM_LAYERS - 2)) for i in layout.ids]
    assert distance(written(tmp_path, layout), layout) > SEEN


def swapped_features(tensors):
    tensors["fc.weight"] = tensors["fc.weight"].roll(HIDDEN, 1)


def absolute_map(tensors):
    """d2t as if it held target ids, and no t2d to give it away."""
    tensors["d2t"] = tensors["d2t"] * 0
    del tensors["t2d"]


@pytest.mark.parametrize(
    "make, change",
    [
        (zlab, swapped_features),
        (deepspec, swapped_features),
        (speculators_dspark, swapped_features),
        (speculators_dflash, absolute_map),
    ],
)
def test_a_swapped_concatenation_or_a_wrong_map_would_show(make, change, tmp_path):
    layout = make()
    change(layout.tensors)
    assert distance(written(tmp_path, layout), layout) > SEEN


@pytest.mark.parametrize(
    "make, changes",
    [
        (zlab, {"architectures": ["Qwen3DSparkModel"]}),
        (speculators_dspark, {"sample_from_anchor": False}),
    ],
)
def test_a_block_shifted_by_one_would_show(make, changes, tmp_path):
    layout = make()
    layout.config |= changes
    assert distance(written(tmp_path, layout), layout) > SEEN


def test_minus_one_is_the_embedding(tmp_path):
    layout = deepspec()
    layout.ids[0] = -1
    assert load_draft(written(tmp_path, layout), target()).config.feature_layers == (0, 3, 5)


def test_dsparks_tensors_are_those_of_the_table():
    expected = {
        "markov_head.markov_w1.weight": [VOCABULARY, RANK],
        "markov_head.markov_w2.weight": [VOCABULARY, RANK],
        "confidence_head.proj.weight": [1, HIDDEN + RANK],
        "confidence_head.proj.bias": [1],
    }
    more = {
        "vanilla": {},
        "gated": {"gate_proj.weight": [RANK, HIDDEN + RANK], "gate_proj.bias": [RANK]},
        "rnn": {
            "joint_proj.weight": [3 * RANK, 2 * RANK + HIDDEN],
            "joint_proj.bias": [3 * RANK],
        },
    }
    for kind, extra in more.items():
        found = {
            k: list(t.shape) for k, t in deepspec(kind).net.state_dict().items() if "head" in k
        }
        assert found == expected | {f"markov_head.{name}": s for name, s in extra.items()}


@pytest.mark.parametrize(
    "make, change, message",
    [
        (zlab, lambda t: t.pop("hidden_norm.weight"), "tensor hidden_norm.weight is missing"),
        (zlab, lambda t: t.update(mask_embedding=torch.ones(48)), "mask_embedding is not part"),
        (zlab, lambda t: t.update({"norm.weight": torch.ones(3)}), r"norm.weight has shape \[3\]"),
        (deepspec, lambda t: t.pop("confidence_head.proj.bias"), "proj.bias is missing"),
        (deepspec_gated, lambda t: t.pop("markov_head.gate_proj.bias"), "gate_proj.bias is miss"),
        (speculators_dflash, lambda t: t.pop("lm_head.weight"), "lm_head.weight is missing"),
        (speculators_dflash, lambda t: t.pop("d2t"), "tensor d2t is missing"),
        (speculators_dflash, lambda t: t["d2t"].add_(1), "d2t and t2d contradict each other"),
        (speculators_full, lambda t: t.update(d2t=torch.ones(97).long()), "d2t reorders"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(make, change, message, tmp_path):
    layout = make()
    layout.tensors = {name: tensor.clone() for name, tensor in layout.tensors.items()}
    change(layout.tensors)
    with pytest.raises(InputError, match=message):
        load_draft(written(tmp_path, layout), target())


def inside(key, value):
    return lambda config: config["dflash_config"].update({key: value})


@pytest.mark.parametrize(
    "make, change, message",
    [
        (zlab, lambda c: c.pop("block_size"), "block_size is missing, at the top and in"),
        (zlab, lambda c: c.update(num_target_layers=36), "of 36 layers, this one has 6"),
        (zlab, lambda c: c.update(hidden_size=64), "hidden_size 64, the target 48"),
        (zlab, lambda c: c.update(vocab_size=98), "vocab_size 98, the target 97"),
        (zlab, lambda c: c.update(layer_types=["sliding_attention"] * 2), "'sliding_attention'"),
        (zlab, inside("causal", True), "causal = True is not supported"),
        (zlab, inside("use_swa", True), "use_swa = True is not supported"),
        (zlab, inside("projector_type", "domino"), "projector_type 'domino' is not supported"),
        (zlab, inside("target_layer_ids", [1, 5]), "the target's last layer 5"),
        (zlab, lambda c: c.update(is_neox_style=False), "is_neox_style = False is not"),
        (deepspec, lambda c: c.update(markov_head_type="lstm"), "markov_head_type 'lstm'"),
        (deepspec, lambda c: c.update(markov_rank=0), "confidence head without a Markov head"),
        (speculators_dflash, lambda c: c.pop("aux_hidden_state_layer_ids"), "ids is missing"),
        (speculators_dflash, lambda c: c.update(target_hidden_size=64), "target_hidden_size"),
        (speculators_dflash, lambda c: c.update(mask_token_id=None), "mask_token_id is missing"),
    ],
)
def test_what_no_network_here_computes_is_refused(make, change, message, tmp_path):
    folder = written(tmp_path, make())
    edit_config(folder, change)
    with pytest.raises(InputError, match=message):
        load_draft(folder, target())


def test_a_method_takes_the_folders_that_fit_it_and_names_the_method_of_others(tmp_path):
    dflash, dspark = written(tmp_path / "a", deepspec_dflash()), written(tmp_path / "b", deepspec())
    assert type(load_dflash(dflash, target())) is DFlashNet
    assert type(load_dspark(dspark, target())) is DSparkNet
    for load, folder, message in (
        (load_dspark, dflash, "for the method dflash, not dspark"),
        (load_dflash, dspark, "for the method dspark, not dflash"),
        (load_eagle3, dspark, "for the method dspark, not eagle3"),
    ):
        with pytest.raises(InputError, match=message):
            load(folder, target())
