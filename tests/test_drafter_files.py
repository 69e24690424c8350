"""Standalone, MTP, FROZEN_KV_MTP on disk: they come back whole; what does not fit is named."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.cli import main
from lessons.lib.draft import registry
from lessons.lib.draft.frozen_kv_mtp import load_frozen_kv_mtp, save_frozen_kv_mtp
from lessons.lib.draft.frozen_kv_net import FrozenKvConfig, FrozenKvNet
from lessons.lib.draft.mtp import load_mtp, save_mtp
from lessons.lib.draft.mtp_net import MtpConfig
from lessons.lib.draft.registry import make_proposer
from lessons.lib.draft.standalone import load_standalone, save_standalone
from lessons.lib.draft.standalone_net import StandaloneConfig
from lessons.lib.model.weight_cache import sha256
from tests.batch_kit import random_ids, tiny_engine, tiny_model
from tests.drafter_kit import KINDS, make_drafter, random_net
from tests.engine_models import fresh_logits, reference_model, write_folder, write_tokenizer

SAVE = {"standalone": save_standalone, "mtp": save_mtp, "frozen_kv_mtp": save_frozen_kv_mtp}
LOAD = {"standalone": load_standalone, "mtp": load_mtp, "frozen_kv_mtp": load_frozen_kv_mtp}
LAYER = {
    *(f"self_attn.{part}_proj" for part in "qkvo"),
    *("self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "post_attention_layernorm"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
}
OWN_KV = {"self_attn.k_proj", "self_attn.v_proj", "self_attn.k_norm"}
NAMES = {
    "standalone": {f"layers.{i}.{name}" for i in range(2) for name in LAYER} | {"norm"},
    "mtp": {f"layers.0.{name}" for name in LAYER}
    | {"fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"},
    "frozen_kv_mtp": {f"layers.{i}.{name}" for i in range(2) for name in LAYER - OWN_KV}
    | {"pre_projection", "post_projection", "norm"},
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def saved(tmp_path, kind, dtype=torch.float32):
    path = tmp_path / kind / "model.safetensors"
    SAVE[kind](random_net(kind), path, dtype)
    return path


def rounds_of(proposer):
    result = tiny_engine().generate(
        random_ids(12, seed=0), 12, proposer=proposer, depth=3, ignore_eos=True
    )
    return result.token_ids, [record.accepted for record in result.rounds]


def test_tensors_are_the_published_ones_and_nothing_of_the_target(kind, tmp_path):
    assert set(load_file(saved(tmp_path, kind))) == {f"{name}.weight" for name in NAMES[kind]}


def test_a_loaded_drafter_guesses_the_same(kind, tmp_path):
    model, _ = tiny_model()
    path = saved(tmp_path, kind)
    expected = rounds_of(make_drafter(kind, random_net(kind)))
    for given in (path, path.parent):
        loaded = make_drafter(kind, LOAD[kind](given, model))
        assert rounds_of(loaded) == expected
        assert loaded.memory_bytes == make_drafter(kind, random_net(kind)).memory_bytes


def test_by_name_it_is_ready_and_drafts(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_networks", {})
    drafter = replace(registry.DRAFTERS[kind], shipped=saved(tmp_path, kind).parent)
    monkeypatch.setitem(registry.DRAFTERS, kind, drafter)
    assert kind in registry.ready_methods()
    expected = rounds_of(make_drafter(kind, random_net(kind)))
    assert rounds_of(make_proposer(kind, tiny_model()[0])) == expected


def test_it_is_stored_in_bf16_by_default(kind, tmp_path):
    SAVE[kind](random_net(kind), tmp_path / "x.safetensors")
    tensors = load_file(tmp_path / "x.safetensors").values()
    assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}


def test_a_damaged_file_is_refused(kind, tmp_path):
    path = saved(tmp_path, kind)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not match its .sha256"):
        LOAD[kind](path, tiny_model()[0])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("norm.weight"), "tensor norm.weight is missing"),
        (lambda t: t.update(extra=torch.ones(1)), "tensor extra is not part"),
        (lambda t: t.update({"norm.weight": torch.ones(3)}), r"norm.weight has shape \[3\]"),
    ],
)
def test_a_file_that_does_not_fit_names_the_tensor(kind, tmp_path, change, message):
    path = saved(tmp_path, kind)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, header)
    path.with_suffix(".sha256").write_text(sha256(path))
    with pytest.raises(InputError, match=message):
        LOAD[kind](path, tiny_model()[0])


@pytest.mark.parametrize(
    "name, value", [("hidden_size", 96), ("vocab_size", 98), ("num_layers", 4), ("head_dim", 16)]
)
def test_a_drafter_of_another_target_is_refused(kind, tmp_path, name, value):
    """As far as it matters: the layers of a small model are its own affair."""
    path = saved(tmp_path, kind)
    model, _ = tiny_model()
    other = replace(model.config, **{name: value})
    own_affairs = {
        "standalone": ("num_layers", "head_dim"),
        "mtp": ("head_dim",),
        "frozen_kv_mtp": (),
    }
    stranger = type(model).__new__(type(model))
    stranger.__dict__.update(model.__dict__ | {"config": other})
    if name in own_affairs[kind]:
        LOAD[kind](path, stranger)
        return
    with pytest.raises(InputError, match=f"{value}"):
        LOAD[kind](path, stranger)


def test_impossible_configs_are_refused():
    config = tiny_model()[0].config
    with pytest.raises(InputError, match="3 layers: choose 1 to 2"):
        StandaloneConfig.of(config, 3)
    with pytest.raises(InputError, match="one block, not 3"):
        MtpConfig(config, 3)
    with pytest.raises(InputError, match="3 draft layers, but kv_layers names 2"):
        FrozenKvConfig(config, (0, 1), 3)
    with pytest.raises(InputError, match="layer 3 is outside"):
        FrozenKvConfig(replace(config, num_layers=1), (3,), 3)
    assert FrozenKvConfig.of(config, 2).kv_layers == (1, 2)


def test_drafters_start_from_the_targets_layers():
    model, _ = tiny_model()
    net = FrozenKvNet(FrozenKvConfig.of(model.config, 2), model)
    net.start_from(model)
    assert torch.equal(net.layers[0].mlp.down_proj.weight, model.layers[1].down.to_dense())
    heads = model.config.num_heads * model.config.head_dim
    assert torch.equal(
        net.layers[1].self_attn.q_proj.weight, model.layers[2].qkv.to_dense()[:heads]
    )
    small = random_net("standalone")
    small.start_from(model, (0, 2))
    assert torch.equal(
        small.layers[1].self_attn.v_proj.weight, model.layers[2].qkv.to_dense()[-16:]
    )
    assert torch.equal(small.norm.weight, model.final_norm)


def test_the_small_model_in_training_is_the_one_that_drafts():
    model, _ = tiny_model()
    net, ids = random_net("standalone"), torch.tensor([random_ids(9, seed=1)])
    expected = fresh_logits(net.to_model(model), ids)
    torch.testing.assert_close(net(ids) @ model.lm_head.T, expected, rtol=1e-4, atol=1e-4)


def test_a_whole_model_drafts_if_it_has_the_same_vocabulary(tmp_path):
    model, tokenizer = tiny_model()
    folder = write_folder(reference_model("llama"), tmp_path / "small")
    draft = load_standalone(folder, model, tokenizer)
    assert draft.model.embedding is not model.embedding
    assert draft.weight_bytes == 4 * sum(p.numel() for p in reference_model("llama").parameters())
    text, accepted = rounds_of(make_drafter("standalone", draft))
    assert text == tiny_engine().generate(random_ids(12, 0), 12, ignore_eos=True).token_ids
    with pytest.raises(InputError, match="give the target's tokenizer"):
        load_standalone(folder, model)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"<7>": 7', '"<seven>": 7'))
    with pytest.raises(InputError, match="token '<(7|seven)>' has another id"):
        load_standalone(folder, model, tokenizer)
    small = reference_model("llama", vocab_size=96)
    small.save_pretrained(tmp_path / "other")
    write_tokenizer(tmp_path / "other", 96)
    with pytest.raises(InputError, match="a vocabulary of 96 tokens, the target's has 97"):
        load_standalone(tmp_path / "other", model, tokenizer)


def test_the_command_line_takes_weights_from_a_path(kind, tmp_path, capsys):
    folder = write_folder(reference_model("qwen3"), tmp_path / "target")
    path = saved(tmp_path, kind)
    base = ["--model", str(folder), "--dtype", "float32", "--device", "cpu"]
    ask = ["generate", "--raw", "--prompt", "<3> <14> <15>", "--json", *base]
    drafting = [*ask, "--method", kind, "--depth", "3"]
    assert main(ask) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*drafting, "--draft", str(path)]) == 0
    drafted = json.loads(capsys.readouterr().out)
    assert drafted["token_ids"] == alone["token_ids"]
    assert drafted["extra_memory_bytes"] > 0
    assert main([*drafting, "--draft", str(tmp_path / "nothing")]) == 2
    assert "nothing is not there" in capsys.readouterr().err
    assert main([*ask, "--draft", str(path)]) == 2
    assert "reads no weights" in capsys.readouterr().err
