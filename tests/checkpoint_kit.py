"""Tiny drafters as others publish them: config.json and tensors, written from their sources' tables
and not by the code under test."""

import functools
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from tests.batch_kit import random_ids
from tests.engine_models import reference_model, write_folder

VOCABULARY, HIDDEN, NUM_LAYERS = 97, 48, 6
HEADS, KV_HEADS, HEAD_DIM, INNER = 4, 2, 16, 40  # of the drafters; the target's are others
DRAFTED = 60  # size of a reduced vocabulary
PROMPT = random_ids(14, seed=3)


@functools.cache
def deep_reference():
    """transformers' own: a target with layers enough for five features."""
    return reference_model("qwen3", num_hidden_layers=NUM_LAYERS)


@functools.cache
def deep_target():
    """(model, tokenizer): the same, loaded by this course."""
    with tempfile.TemporaryDirectory() as folder:
        return load_model(write_folder(deep_reference(), Path(folder)), "float32", "cpu")


def features_of(text, states):
    """[len(text), len(states) * hidden] of transformers' list of hidden states, which begins with
    what enters layer 0."""
    with torch.no_grad():
        found = deep_reference()(torch.tensor([text]), output_hidden_states=True).hidden_states
    return torch.cat([found[state][0] for state in states], -1)


def target():
    return deep_target()[0]


def sizes(kind, num_layers, **changes):
    """The part of a config that transformers knows."""
    return {
        "model_type": kind,
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": num_layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5000.0,
        "rope_scaling": None,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    } | changes


def random_tensors(shapes, seed=0):
    """Lively weights: norms around one, matrices that keep the scale of their input."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        is_norm = len(shape) == 1 and name.endswith("norm.weight") or "norm" in name
        tensors[name] = 1 + 0.3 * noise if is_norm else 1.7 * noise / shape[-1] ** 0.5
    return tensors


def add_vocabulary_map(tensors, seed=0):
    """d2t, the offset of each draft id, and t2d, the mask of the target ids."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(VOCABULARY, generator=generator)[:DRAFTED].sort().values
    tensors["d2t"] = ids - torch.arange(DRAFTED)
    tensors["t2d"] = torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, ids, True)
    return tensors


def write_checkpoint(folder, config, tensors, is_pickled=False):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if is_pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file({k: t.contiguous() for k, t in tensors.items()}, folder / "model.safetensors")
    return folder


def edit_config(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


class Recorder:
    """Stands before a proposer and remembers what it proposed behind which context."""

    def __init__(self, proposer):
        self._propose, self.log = proposer.propose, []
        self.feature_layers, self.memory_bytes = proposer.feature_layers, proposer.memory_bytes
        self.observe, self.observe_features = proposer.observe, proposer.observe_features
        self.forget = proposer.forget

    def propose(self, context_ids, num_draft_tokens):
        proposal = self._propose(context_ids, num_draft_tokens)
        self.log.append((list(context_ids), proposal))
        return proposal


def recorded(proposer, sampling=None, depth=4, num_new=8):
    """(context, proposal) of every round of a request on the deep target."""
    recorder = Recorder(proposer)
    engine = Engine(*deep_target(), token_budget=9)  # the prompt comes in chunks
    engine.generate(PROMPT, num_new, sampling, recorder, depth, ignore_eos=True)
    assert len(recorder.log) > 1
    return recorder.log
