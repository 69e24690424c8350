"""Models for the engine's tests: tiny random ones written to disk, and the default one, once."""

import functools
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from kernels.kv_pool import SequenceKV
from lessons.lib.engine import Engine
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.loader import load_model
from lessons.lib.tree import DraftTree

SIZES = dict(
    vocab_size=97,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=256,
)
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@functools.cache
def smollm(dtype: str) -> Engine:
    return Engine(*load_model(dtype=dtype, device="cpu"))


def empty_sequences(model, batch, num_tokens, page_size=16):
    """(pool, sequences): a pool in which `batch` sequences find room for num_tokens each."""
    pages = batch * -(-num_tokens // page_size)
    return model.new_pool(pages * page_size, page_size), [SequenceKV() for _ in range(batch)]


def append(model, pool, sequences, ids, num_logits=None):
    """Tokens ids [batch, q] behind the sequences -> logits [batch, num_logits or q, vocab]."""
    rows = [(kv, DraftTree.chain(row)) for kv, row in zip(sequences, ids.tolist(), strict=True)]
    counts = None if num_logits is None else [num_logits] * len(rows)
    logits = model.forward(prepare_batch(pool, rows, counts), pool)
    for kv in sequences:
        pool.commit(kv, ids.shape[1])
    return logits.unflatten(0, (len(rows), -1))


def fresh_logits(model, ids):
    """Logits [batch, q, vocab] of whole texts ids [batch, q]."""
    return append(model, *empty_sequences(model, *ids.shape), ids)


def reference_model(kind: str, tied: bool = False, **overrides):
    """A random model of transformers' own class, weights large enough for lively logits."""
    torch.manual_seed(7)
    settings = SIZES | {"tie_word_embeddings": tied} | overrides
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**settings))
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(6)
    return model.float().eval()


def write_folder(model, folder: Path, shard_size: str = "1GB") -> Path:
    model.save_pretrained(folder, max_shard_size=shard_size)
    write_tokenizer(folder, model.config.vocab_size)
    return folder


def write_tokenizer(folder: Path, vocab_size: int) -> None:
    vocab = {f"<{index}>": index for index in range(vocab_size)}
    backend = Tokenizer(models.WordLevel(vocab, unk_token="<0>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Fuse()
    backend.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<1>", "chat_template": "{{ messages[0]['content'] }} {{ eos_token }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_gguf(model, path: Path) -> Path:
    """The model as llama.cpp's converter lays it out: query and key rows interleaved."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|end|>", "ab", *alphabet][: config.vocab_size]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        target = _gguf_name(name)
        if target is None:
            continue
        rows = tensor.numpy()
        part = target.split(".")[-2]
        if part in heads:
            halves = rows.reshape(heads[part], 2, config.head_dim // 2, rows.shape[-1])
            rows = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))
        writer.add_tensor(target, rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str | None:
    parts = {
        "input_layernorm": "attn_norm",
        "q_proj": "attn_q",
        "k_proj": "attn_k",
        "v_proj": "attn_v",
        "o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "gate_proj": "ffn_gate",
        "up_proj": "ffn_up",
        "down_proj": "ffn_down",
    }
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    if name in top:
        return top[name]
    if not name.startswith("model.layers."):
        return None  # the tied head
    words = name.split(".")
    return f"blk.{words[2]}.{parts[words[-2]]}.weight"
