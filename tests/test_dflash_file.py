"""A drafter on disk: it comes back whole, and what does not fit is named."""

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.draft.dflash import load_dflash, save_dflash
from lessons.lib.model.weight_cache import sha256
from tests.batch_kit import tiny_model
from tests.block_kit import block_config, block_net, block_proposer


def sign(path):
    path.with_suffix(".sha256").write_text(sha256(path))


def saved(tmp_path, model):
    path = tmp_path / "dflash.safetensors"
    save_dflash(block_net("dflash", model.config), path, torch.float32)
    return path


def test_a_saved_network_comes_back(tmp_path):
    model, _ = tiny_model()
    net, loaded = block_net("dflash", model.config), load_dflash(saved(tmp_path, model), model)
    assert loaded.config == net.config
    for name, tensor in net.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_tensors_have_the_names_of_the_authors_checkpoints(tmp_path):
    names = set(load_file(saved(tmp_path, tiny_model()[0])))
    layer = {
        *(f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "o_proj")),
        *("self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "post_attention_layernorm"),
        *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    }
    expected = {f"layers.{index}.{name}.weight" for index in range(2) for name in layer}
    assert names == expected | {"fc.weight", "hidden_norm.weight", "norm.weight"}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("fc.weight"), "tensor fc.weight is missing"),
        (lambda t: t.update(extra=torch.ones(1)), "tensor extra is not part"),
        (lambda t: t.update({"norm.weight": torch.ones(3)}), r"norm.weight has shape \[3\]"),
    ],
)
def test_a_file_that_does_not_fit_names_the_tensor(tmp_path, change, message):
    model, _ = tiny_model()
    path = saved(tmp_path, model)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, header)
    sign(path)
    with pytest.raises(InputError, match=message):
        load_dflash(path, model)


def test_what_is_no_drafter_of_this_target_is_refused(tmp_path):
    model, _ = tiny_model()
    with pytest.raises(InputError, match="file not found"):
        load_dflash(tmp_path / "nothing.safetensors", model)
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="or has none beside it"):
        load_dflash(tmp_path / "other.safetensors", model)
    sign(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not saved by this course"):
        load_dflash(tmp_path / "other.safetensors", model)
    (tmp_path / "text.safetensors").write_text("hello")
    sign(tmp_path / "text.safetensors")
    with pytest.raises(InputError, match="not a readable safetensors file"):
        load_dflash(tmp_path / "text.safetensors", model)


@pytest.mark.parametrize("name", ["hidden_size", "vocab_size"])
def test_sizes_that_are_not_the_targets_are_refused(name):
    model, _ = tiny_model()
    config = block_config("dflash", model.config)
    other = replace(config, body=replace(config.body, **{name: 2 * getattr(config.body, name)}))
    with pytest.raises(InputError, match=f"drafter has {name}"):
        other.check_target(model.config)


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(block_size=1), "block_size"),
        (dict(feature_layers=()), "feature_layers"),
        (dict(mask_token_id=97), "mask_token_id 97"),
    ],
)
def test_an_impossible_config_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        block_config("dflash", tiny_model()[0].config, **changes)


def test_a_layer_the_target_does_not_have_is_refused():
    with pytest.raises(InputError, match="feature layer 4"):
        block_proposer("dflash", feature_layers=(4,))
