"""An EAGLE-3 folder: published names, the same guesses after loading, errors naming the fault."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels.runtime import InputError
from lessons.lib.draft import eagle3_file
from lessons.lib.draft.eagle3_file import load_eagle3, save_eagle3
from lessons.lib.draft.eagle3_net import Eagle3Config, Eagle3Net
from lessons.lib.draft.registry import make_proposer, method_names, ready_methods
from lessons.lib.model.weight_cache import sha256
from tests.batch_kit import random_ids, tiny_model
from tests.eagle3_kit import DRAFT_VOCABULARY, llama_engine, proposer_of, tiny_net


@pytest.fixture
def folder(tmp_path):
    save_eagle3(tiny_net(), tmp_path / "drafter", torch.float32)
    return tmp_path / "drafter"


def target():
    return tiny_model("llama")[0]


def test_names_and_shapes_are_those_of_the_authors(folder):
    hidden, vocab = 48, DRAFT_VOCABULARY
    shapes = {name: list(t.shape) for name, t in load_file(folder / "model.safetensors").items()}
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    assert shapes == {
        "fc.weight": [hidden, 3 * hidden],
        "midlayer.self_attn.q_proj.weight": [48, 2 * hidden],
        "midlayer.self_attn.k_proj.weight": [16, 2 * hidden],
        "midlayer.self_attn.v_proj.weight": [16, 2 * hidden],
        "midlayer.self_attn.o_proj.weight": [hidden, 48],
        "midlayer.mlp.gate_proj.weight": [80, hidden],
        "midlayer.mlp.up_proj.weight": [80, hidden],
        "midlayer.mlp.down_proj.weight": [hidden, 80],
        **{f"midlayer.{name}.weight": [hidden] for name in norms},
        "norm.weight": [hidden],
        "lm_head.weight": [vocab, hidden],
        "d2t": [vocab],
    }


def test_a_loaded_drafter_guesses_the_same(folder):
    loaded = load_eagle3(folder, target())
    prompt = random_ids(12, seed=0)
    rounds = []
    for net in (tiny_net(), loaded):
        result = llama_engine().generate(
            prompt, 12, proposer=proposer_of(net, width=3), depth=6, ignore_eos=True
        )
        rounds.append([(r.proposed, r.accepted, r.tree_depth) for r in result.rounds])
    assert rounds[0] == rounds[1]
    for name, tensor in tiny_net().to_tensors().items():
        assert torch.equal(loaded.to_tensors()[name], tensor), name


def test_it_is_stored_in_bf16_by_default(tmp_path):
    save_eagle3(tiny_net(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors.pop("d2t").dtype == torch.int64
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_a_damaged_file_is_refused(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not match its .sha256"):
        load_eagle3(folder, target())


def test_what_others_publish_has_no_checksum_and_what_is_shipped_must(folder, monkeypatch):
    (folder / "model.sha256").unlink()
    assert load_eagle3(folder, target()).config.draft_vocab_size == DRAFT_VOCABULARY
    monkeypatch.setattr(eagle3_file, "SHIPPED", folder)
    with pytest.raises(InputError, match="does not match its .sha256"):
        load_eagle3(folder, target())


def rewrite(folder, change):
    """Change the tensors, checksum and all."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    path.with_suffix(".sha256").write_text(sha256(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.weight"), "fc.weight is missing"),
        (lambda t: t.update(t2d=torch.zeros(97)), "d2t and t2d contradict"),
        (lambda t: t.update(extra=torch.zeros(97)), "extra is not part of this architecture"),
        (lambda t: t.update({"norm.weight": torch.ones(9)}), r"norm.weight has shape \[9\]"),
        (lambda t: t["d2t"].add_(60), "outside the target's vocabulary"),
        (lambda t: t["d2t"][1:2].copy_(t["d2t"][:1] - 1), "two draft ids to one"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(InputError, match=message):
        load_eagle3(folder, target())


def test_a_drafter_of_another_target_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    with pytest.raises(InputError, match="hidden_size 64, this one has 48"):
        load_eagle3(folder, target())
    del config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="vocab_size 32000, this one has 97"):
        load_eagle3(folder, target())


def test_where_nothing_is_shipped_the_error_says_how_to_train(tmp_path):
    with pytest.raises(InputError, match="python -m lessons.lib.train eagle3"):
        load_eagle3(tmp_path / "none", target())
    with pytest.raises(InputError, match="give it the model"):
        make_proposer("eagle3")
    assert {"eagle3", "eagle3-tree"} < set(method_names())
    assert set(ready_methods()) <= set(method_names())


def test_the_paper_layers_and_the_size_of_the_vocabulary():
    config = target().config
    with pytest.raises(InputError, match="draft vocabulary of 98"):
        Eagle3Config.of(config, 98)
    net = Eagle3Net(Eagle3Config(config, 10, (1, 2, 0)))
    with pytest.raises(InputError, match="two draft ids"):
        net.set_vocabulary(torch.zeros(10, dtype=torch.int64))


def test_it_starts_from_the_targets_own_weights():
    """fc passes the highest feature on, so that an untrained drafter is in the target's space."""
    net = Eagle3Net(Eagle3Config(target().config, 97, (1, 2, 0)))
    net.set_vocabulary(torch.arange(97))
    net.start_from(target())
    layer = target().layers[-1]
    assert torch.equal(net.down_proj.weight, layer.down.to_dense())
    assert torch.equal(net.qkv.weight[:, 48:], layer.qkv.to_dense())
    assert torch.equal(net.lm_head.weight, target().lm_head)
    features = torch.randn(4, 144)
    high = features[:, 96:]
    share = torch.nn.functional.cosine_similarity(net.fuse(features), high, -1)
    assert share.min() > 0.9
