"""Published EAGLE-3 drafters: every layout drafts what a slow reference makes of the same tensors,
fed by transformers' hidden states; a mistake in ids, order or maps would show."""

from dataclasses import dataclass, field, replace

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.checkpoints import load_draft
from lessons.lib.draft.eagle3 import Eagle3Proposer
from tests.checkpoint_kit import (
    DRAFTED,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    NUM_LAYERS,
    VOCABULARY,
    add_vocabulary_map,
    edit_config,
    features_of,
    random_tensors,
    recorded,
    sizes,
    target,
    write_checkpoint,
)
from tests.eagle3_reference import Reference

SAMPLING = SamplingParams(1.0, seed=2)
SEEN = 0.05  # a total variation that no rounding makes
IDS = "eagle_aux_hidden_state_layer_ids"


def shapes(layer, num_features=3, hidden=HIDDEN, drafted=DRAFTED, qk_norm=False):
    """The table of the authors' checkpoints, at the tests' sizes."""
    query, key = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    table = {
        "fc.weight": (hidden, num_features * HIDDEN),
        f"{layer}.self_attn.q_proj.weight": (query, 2 * hidden),
        f"{layer}.self_attn.k_proj.weight": (key, 2 * hidden),
        f"{layer}.self_attn.v_proj.weight": (key, 2 * hidden),
        f"{layer}.self_attn.o_proj.weight": (hidden, query),
        f"{layer}.mlp.gate_proj.weight": (INNER, hidden),
        f"{layer}.mlp.up_proj.weight": (INNER, hidden),
        f"{layer}.mlp.down_proj.weight": (hidden, INNER),
        f"{layer}.hidden_norm.weight": (hidden,),
        f"{layer}.input_layernorm.weight": (hidden,),
        f"{layer}.post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (drafted, hidden),
    }
    if qk_norm:
        table[f"{layer}.self_attn.q_norm.weight"] = (HEAD_DIM,)
        table[f"{layer}.self_attn.k_norm.weight"] = (HEAD_DIM,)
    return table


@dataclass
class Layout:
    """A checkpoint, what its layer ids mean as entries of transformers' list of hidden states, and
    where its config keeps them."""

    config: dict
    tensors: dict
    states: tuple
    layer: str
    ids_key: str | None = None
    options: dict = field(default_factory=dict)
    is_pickled: bool = False


def authors():
    """SafeAILab: pytorch_model.bin, no layer ids, no embedding, no rope_theta."""
    config = {"architectures": ["LlamaForCausalLM"], "draft_vocab_size": DRAFTED}
    config |= sizes("llama", 1, rope_theta=10000.0)
    del config["rope_theta"], config["rope_scaling"]
    tensors = add_vocabulary_map(random_tensors(shapes("midlayer")))
    states = (2, NUM_LAYERS // 2, NUM_LAYERS - 3)
    return Layout(config, tensors, states, "midlayer", is_pickled=True)


def narrow():
    """SafeAILab: a drafter that is not as wide as its target, with an embedding of its own."""
    config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFTED}
    config |= sizes("llama", 1, hidden_size=32) | {"target_hidden_size": HIDDEN, IDS: [1, 4, 5]}
    table = shapes("midlayer", hidden=32) | {"embed_tokens.weight": (VOCABULARY, 32)}
    tensors = add_vocabulary_map(random_tensors(table))
    return Layout(config, tensors, (1, 4, 5), "midlayer", IDS)


def specforge():
    """SpecForge, EAGLE 3.1: a norm for each feature, the normalised output fed back."""
    config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFTED}
    config |= sizes("llama", 1) | {"fc_norm": True, "norm_output": True}
    config["eagle_config"] = {IDS: [2, 1, 4]}
    table = shapes("midlayer") | {f"fc_norm.{i}.weight": (HIDDEN,) for i in range(3)}
    tensors = add_vocabulary_map(random_tensors(table))
    return Layout(config, tensors, (2, 1, 4), "midlayer", options={"feeds_norm": True})


def deepspec():
    """DeepSpec: five features by output ids, q and k norms, the full vocabulary with frozen copies
    of embedding and head."""
    config = {"architectures": ["Qwen3Eagle3Model"], "num_target_layers": NUM_LAYERS}
    config |= sizes("qwen3", 1) | {"target_layer_ids": [0, 1, 2, 3, 4], "ttt_length": 7}
    table = shapes("layers.0", num_features=5, drafted=VOCABULARY, qk_norm=True)
    tensors = random_tensors(table)
    tensors["embed_tokens.weight"] = target().embedding.clone()
    return Layout(config, tensors, (1, 2, 3, 4, 5), "layers.0", "target_layer_ids")


def speculators(kind="llama", **flags):
    ids = [5, 1, 3]
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.7.0",
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "somewhere"}},
        "transformer_layer_config": sizes(kind, 1),
        "draft_vocab_size": DRAFTED,
        "target_hidden_size": None,
        IDS: ids,
    }
    table = shapes("layers.0", qk_norm=kind == "qwen3")
    if flags.get("norm_before_fc"):
        table["input_norm.weight"] = (3 * HIDDEN,)
    table["embed_tokens.weight"] = (VOCABULARY, HIDDEN)
    tensors = add_vocabulary_map(random_tensors(table))
    options = {"before_residual": flags.get("norm_before_residual", False)}
    return Layout(config | flags, tensors, tuple(ids), "layers.0", IDS, options)


def speculators_qwen3():
    return speculators("qwen3", norm_before_residual=True, norm_before_fc=True)


LAYOUTS = [authors, narrow, specforge, deepspec, speculators, speculators_qwen3]


def written(tmp_path, layout):
    return write_checkpoint(tmp_path / "draft", layout.config, layout.tensors, layout.is_pickled)


def reference_of(layout):
    raw = layout.config.get("transformer_layer_config", layout.config)
    body = replace(
        target().config,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rms_norm_eps=raw["rms_norm_eps"],
        rope_theta=raw.get("rope_theta", 10000.0),
    )
    return Reference(layout.tensors, body, target().embedding, layout.layer, **layout.options)


def distance(folder, layout):
    """Mean total variation between the laws that the loaded drafter drew from and those of the
    reference, over all drafts of a request."""
    drafter = Eagle3Proposer(load_draft(folder, target()), target().embedding, SAMPLING)
    reference, found = reference_of(layout), []
    for context, proposal in recorded(drafter, SAMPLING):
        features = features_of(context, layout.states)[:-1]
        for place, law in enumerate(proposal.draft_probs):
            expected = torch.zeros(VOCABULARY)
            drafts = proposal.token_ids[:place]
            log_probs = reference.log_probs(features, context[1:], drafts)
            expected[reference.target_ids] = log_probs.exp()
            found.append(float((law - expected).abs().sum() / 2))
    return sum(found) / len(found)


@pytest.mark.parametrize("make", LAYOUTS)
def test_every_layout_drafts_what_the_reference_makes_of_its_tensors(make, tmp_path):
    layout = make()
    assert distance(written(tmp_path, layout), layout) < 1e-4


@pytest.mark.parametrize("make", [narrow, deepspec, speculators])
def test_layer_ids_off_by_one_would_show(make, tmp_path):
    layout = make()
    layout.config[layout.ids_key] = [i - 1 for i in layout.config[layout.ids_key]]
    assert distance(written(tmp_path, layout), layout) > SEEN


def swapped_inputs(tensors, layer):
    """q, k and v as if they took [hidden; embedding]."""
    for part in "qkv":
        name = f"{layer}.self_attn.{part}_proj.weight"
        tensors[name] = tensors[name].roll(tensors[name].shape[1] // 2, 1)


def swapped_features(tensors, layer):
    """fc as if the features came in another order."""
    tensors["fc.weight"] = tensors["fc.weight"].roll(HIDDEN, 1)


@pytest.mark.parametrize("swap", [swapped_inputs, swapped_features])
@pytest.mark.parametrize("make", [authors, deepspec, speculators])
def test_a_swapped_concatenation_would_show(make, swap, tmp_path):
    layout, wrong = make(), make()
    swap(wrong.tensors, wrong.layer)
    assert distance(written(tmp_path, wrong), layout) > SEEN


@pytest.mark.parametrize("make", [specforge, speculators_qwen3])
def test_a_flag_that_is_ignored_would_show(make, tmp_path):
    layout = make()
    layout.options = {}
    assert distance(written(tmp_path, layout), layout) > SEEN


def test_a_frozen_copy_of_the_embedding_takes_no_memory(tmp_path):
    layout = deepspec()
    assert load_draft(written(tmp_path, layout), target()).embed_tokens is None
    layout.tensors["embed_tokens.weight"][3, 3] += 1
    assert load_draft(written(tmp_path, layout), target()).embed_tokens is not None


def test_verifier_weights_of_older_speculators_are_left_out(tmp_path):
    layout = speculators()
    layout.tensors["verifier_lm_head.weight"] = torch.zeros(DRAFTED, HIDDEN)
    layout.tensors["verifier_norm.weight"] = torch.zeros(HIDDEN)
    net = load_draft(written(tmp_path, layout), target())
    # The drafter keeps its own head and norm: the zeros went nowhere.
    assert torch.equal(net.lm_head.weight, layout.tensors["lm_head.weight"])
    assert all(weight.any() for weight in net.state_dict().values() if weight.is_floating_point())


def absolute_map(tensors):
    tensors["d2t"] = tensors["d2t"] + torch.arange(DRAFTED)


@pytest.mark.parametrize("make", [authors, speculators])
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("fc.weight"), "tensor fc.weight is missing"),
        (lambda t: t.pop("d2t"), "tensor d2t is missing"),
        (lambda t: t.update(mask_hidden=torch.ones(3)), "tensor mask_hidden is not part"),
        (lambda t: t.update({"norm.weight": torch.ones(9)}), r"tensor norm.weight has shape \[9\]"),
        (absolute_map, "tensors d2t and t2d contradict each other"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(make, change, message, tmp_path):
    layout = make()
    change(layout.tensors)
    with pytest.raises(InputError, match=message):
        load_draft(written(tmp_path, layout), target())


def test_a_tensor_of_the_layer_is_named_as_in_its_file(tmp_path):
    for make, name in (
        (authors, "midlayer.mlp.up_proj.weight"),
        (speculators, "layers.0.mlp.up_proj.weight"),
    ):
        layout = make()
        del layout.tensors[name]
        with pytest.raises(InputError, match=f"tensor {name} is missing"):
            load_draft(written(tmp_path, layout), target())


def inner(key, value):
    """A change of the layer's sizes in the speculators layout."""
    return lambda config: config["transformer_layer_config"].update({key: value})


@pytest.mark.parametrize(
    "make, change, message",
    [
        (authors, lambda c: c.update(vocab_size=98), "with vocab_size 98, this one has 97"),
        (authors, lambda c: c.update(hidden_size=64), "with hidden_size 64, this one has 48"),
        (narrow, lambda c: c.update(target_hidden_size=64), "hidden_size 64, this one has 48"),
        (narrow, lambda c: c.update({IDS: [1, 4, 7]}), "feature layer 7 is outside .* 0 to 6"),
        (authors, lambda c: c.update(num_hidden_layers=2), "2 draft layers"),
        (authors, lambda c: c.update(attention_bias=True), "attention_bias = true is not"),
        (authors, lambda c: c.update(hidden_act="gelu"), "hidden_act = 'gelu' is not supported"),
        (authors, lambda c: c.pop("draft_vocab_size"), "no draft_vocab_size"),
        (authors, lambda c: c.update(architectures=["PEagleDraftModel"]), "'PEagleDraftModel' is"),
        (deepspec, lambda c: c.update(num_target_layers=36), "of 36 layers, this one has 6"),
        (deepspec, lambda c: c.update(target_layer_ids=[1, 5]), "the target's last layer 5"),
        (deepspec, lambda c: c.pop("target_layer_ids"), "target_layer_ids is missing"),
        (speculators, lambda c: c.update(speculators_model_type="peagle"), "'peagle' is not"),
        (speculators, lambda c: c.update(fc_norm=True, norm_before_fc=True), "exclude each other"),
        (speculators, inner("model_type", "gemma3_text"), "'gemma3_text' is not supported"),
        (speculators, inner("rope_scaling", {"rope_type": "yarn"}), "'yarn' is not supported"),
        (speculators, inner("layer_types", ["sliding_attention"]), "has 'sliding_attention'"),
    ],
)
def test_what_no_network_here_computes_is_refused(make, change, message, tmp_path):
    folder = written(tmp_path, make())
    edit_config(folder, change)
    with pytest.raises(InputError, match=message):
        load_draft(folder, target())


def test_files_that_are_no_checkpoint(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        load_draft(tmp_path / "nothing", target())
    folder = written(tmp_path, authors())
    (folder / "pytorch_model.bin").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"pytorch_model.bin: not a readable file of weights"):
        load_draft(folder, target())
    torch.save([1, 2], folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="expected tensors by name, found list"):
        load_draft(folder, target())
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="holds neither model.safetensors nor"):
        load_draft(folder, target())
