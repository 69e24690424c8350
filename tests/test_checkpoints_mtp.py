"""Published MTP modules: every layout drafts what a slow reference makes of the same tensors, fed
by transformers' states; a swapped concatenation or a norm in the wrong place would show."""

import functools

import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.mtp import MtpProposer, load_mtp
from lessons.lib.model.loader import load_model
from tests.checkpoint_kit import (
    NUM_LAYERS,
    deep_reference,
    edit_config,
    features_of,
    random_tensors,
    recorded,
    target,
)
from tests.drafter_reference import Layer, attention, norm
from tests.engine_models import write_folder

SAMPLING = SamplingParams(1.0, seed=2)
SEEN = 0.05  # a total variation that no rounding makes
HIDDEN, EPS = 48, 1e-6
DEEPSEEK = f"model.layers.{NUM_LAYERS}."
PARTS = {  # prefix, of the block, norm of the embedding, of the hidden, projection, last norm
    "qwen": ("mtp.", "mtp.layers.0.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
    "mimo": ("model.mtp_layers.0.",) * 2
    + ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
    "deepseek": (DEEPSEEK, DEEPSEEK, "enorm", "hnorm", "eh_proj", "shared_head.norm"),
    "speculators": ("mtp_layers.0.",) * 2
    + ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
}


@functools.cache
def tensors_of(kind):
    """A module with a block of the target's sizes, under the names of its family."""
    prefix, block, embedding, hidden, projection, last = PARTS[kind]
    layer = deep_reference().model.layers[0].state_dict()
    shapes = {f"{block}{name}": tuple(tensor.shape) for name, tensor in layer.items()}
    shapes |= {f"{prefix}{name}.weight": (HIDDEN,) for name in (embedding, hidden, last)}
    shapes[f"{prefix}{projection}.weight"] = (HIDDEN, 2 * HIDDEN)
    return random_tensors(shapes)


def written(tmp_path, kind, tensors):
    """In the target's own folder, or apart."""
    folder = write_folder(deep_reference(), tmp_path / "model")
    path = folder / "model.safetensors"
    if kind == "speculators":
        edit_config(folder, as_speculators)
        save_file(tensors, path)
    else:
        save_file(load_file(path) | tensors, path)
    return folder


def as_speculators(config):
    sizes = dict(config)
    config.clear()
    config |= {"speculators_model_type": "mtp", "num_nextn_predict_layers": 1}
    config["transformer_layer_config"] = sizes


def slow_law(kind, tensors, context, guesses, hidden_first=None, norm_output=None):
    """The law behind the guesses, in float64, every row from the start."""
    prefix, block, *names = PARTS[kind]
    hidden_first = kind == "mimo" if hidden_first is None else hidden_first
    norm_output = kind != "deepseek" if norm_output is None else norm_output
    weights = {name: tensor.double() for name, tensor in tensors.items()}
    of_embedding, of_hidden, projection, last = (weights[f"{prefix}{n}.weight"] for n in names)
    layer = Layer(tensors, block, target().config)
    model, known = target(), len(context) - 1
    states = features_of(context, (NUM_LAYERS,))[:known].double()  # the last one is normed
    tokens = [*context[1:], *guesses]
    for count in range(known, known + len(guesses) + 1):
        both = [
            norm(model.embedding[tokens[:count]].double(), of_embedding, EPS),
            norm(states, of_hidden, EPS),
        ]
        rows = torch.cat(both[::-1] if hidden_first else both, -1) @ projection.T
        places = torch.arange(count)
        query, key, value = (layer.heads(rows, part, places) for part in "qkv")
        mixed = attention(query, key, value, torch.ones(count, count).tril().bool())
        out = layer.finish(rows, mixed)
        final = norm(out, last, EPS)
        states = torch.cat([states, (final if norm_output else out)[-1:]])
    return (final[-1] @ model.lm_head.double().T).softmax(-1)


@torch.no_grad()
def distance(folder, kind, tensors, **mistake):
    net, found = load_mtp(folder, target()), []
    for context, proposal in recorded(MtpProposer(net, target(), SAMPLING), SAMPLING):
        for place, law in enumerate(proposal.draft_probs):
            expected = slow_law(kind, tensors, context, proposal.token_ids[:place], **mistake)
            found.append(float((law - expected).abs().sum() / 2))
    return sum(found) / len(found)


@pytest.mark.parametrize("kind", PARTS)
def test_every_layout_drafts_what_the_reference_makes_of_its_tensors(kind, tmp_path):
    tensors = tensors_of(kind)
    assert distance(written(tmp_path, kind, tensors), kind, tensors) < 1e-4


@pytest.mark.parametrize(
    "kind, mistake",
    [
        ("qwen", {"hidden_first": True}),
        ("mimo", {"hidden_first": False}),
        ("deepseek", {"norm_output": True}),
        ("speculators", {"norm_output": False}),
    ],
)
def test_a_swapped_concatenation_or_a_misplaced_norm_would_show(kind, mistake, tmp_path):
    tensors = tensors_of(kind)
    assert distance(written(tmp_path, kind, tensors), kind, tensors, **mistake) > SEEN


@pytest.mark.parametrize("kind", ["qwen", "mimo", "deepseek"])
def test_the_target_loads_from_the_folder_that_holds_the_module(kind, tmp_path):
    folder = written(tmp_path, kind, tensors_of(kind))
    model, _ = load_model(folder, "float32", "cpu")
    assert torch.equal(model.layers[2].attn_norm, target().layers[2].attn_norm)


def test_copies_of_embedding_and_head_are_left_out_and_others_refused(tmp_path):
    copy = {f"{DEEPSEEK}embed_tokens.weight": target().embedding.clone()}
    copy[f"{DEEPSEEK}shared_head.head.weight"] = target().lm_head.clone()
    tensors = tensors_of("deepseek")
    load_mtp(written(tmp_path / "a", "deepseek", tensors | copy), target())
    copy[f"{DEEPSEEK}shared_head.head.weight"][0, 0] += 1
    with pytest.raises(InputError, match="shared_head.head.weight is not part"):
        load_mtp(written(tmp_path / "b", "deepseek", tensors | copy), target())


@pytest.mark.parametrize(
    "kind, change, message",
    [
        ("qwen", lambda t: t.pop("mtp.norm.weight"), "tensor mtp.norm.weight is missing"),
        ("qwen", lambda t: t.pop("mtp.fc.weight"), "no MTP module: none of mtp.fc.weight, model"),
        ("qwen", lambda t: t.update({"mtp.layers.0.mlp.gate.weight": torch.ones(3)}), "mlp.gate"),
        (
            "qwen",  # Qwen3-Next's own: queries and the gates of their heads
            lambda t: t.update({"mtp.layers.0.self_attn.q_proj.weight": torch.ones(96, 48)}),
            r"q_proj.weight has shape \[96, 48\], the config expects \[48, 48\]",
        ),
        (
            "mimo",  # MiMo-7B's own: Qwen2 has biases
            lambda t: t.update({"model.mtp_layers.0.self_attn.q_proj.bias": torch.ones(48)}),
            "self_attn.q_proj.bias is not part",
        ),
        ("speculators", lambda t: t.update(extra=torch.ones(1)), "tensor extra is not part"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(kind, change, message, tmp_path):
    tensors = dict(tensors_of(kind))
    change(tensors)
    with pytest.raises(InputError, match=message):
        load_mtp(written(tmp_path, kind, tensors), target())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.update(num_nextn_predict_layers=2), "2 MTP modules; one is run here"),
        (lambda c: c.update(model_type="qwen3_next"), "'qwen3_next' is not supported"),
        (lambda c: c.update(num_hidden_layers=7, layer_types=None), "of 7 layers, this one has 6"),
        (lambda c: c.update(hidden_size=64), "hidden_size 64, the target 48"),
    ],
)
def test_another_target_or_more_modules_are_refused(change, message, tmp_path):
    folder = written(tmp_path, "qwen", tensors_of("qwen"))
    edit_config(folder, change)
    with pytest.raises(InputError, match=message):
        load_mtp(folder, target())
