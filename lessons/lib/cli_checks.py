"""Commands that check the engine: `verify-tree` against another implementation, `soak` the pool."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from kernels.kv_soak import soak
from kernels.runtime import InputError
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.tree import DraftTree, TreeError
from lessons.lib.tree_forward import tree_logits
from lessons.lib.tree_verify import verify_tree_greedy

_NUM_TOP = 5


def add_verify_tree(parser: argparse.ArgumentParser) -> None:
    """Arguments beside those of the model."""
    parser.add_argument("--json", action="store_true", help="print on one line")
    parser.set_defaults(run=_verify_tree)


def add_soak(parser: argparse.ArgumentParser) -> None:
    """Arguments of the pool's soak."""
    parser.add_argument("--rounds", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print on one line")
    parser.set_defaults(run=_soak)


def _verify_tree(options: argparse.Namespace) -> None:
    request = _read_request(sys.stdin.read())
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    prompt_ids = _prompt_ids(request["prompt"], tokenizer)
    tree = _tree(prompt_ids[-1], request["tokens"], request["parent_ids"])
    outside = [t for t in (*prompt_ids, *tree.token_ids) if not 0 <= t < model.config.vocab_size]
    if outside:
        raise InputError(f"token id {outside[0]}: the model has {model.config.vocab_size} tokens")
    report = verify_tree(model, prompt_ids, tree)
    print(json.dumps(report, indent=None if options.json else 2))


def verify_tree(model: LlamaModel, prompt_ids: Sequence[int], tree: DraftTree) -> dict[str, Any]:
    """The tree behind the prompt in one forward; the root is the prompt's last token.

    nodes[i]: its log-probability under its parent's law (None for the root), the argmax and the
    likeliest continuations behind it. accepted_path and token_ids: what greedy decoding keeps.
    """
    logits = tree_logits(model, prompt_ids[:-1], tree)
    log_probs = logits.float().log_softmax(-1)
    top = log_probs.topk(min(_NUM_TOP, log_probs.shape[-1]))
    nodes = [
        {
            "token_id": token,
            "parent_id": parent,
            "log_prob": float(log_probs[parent, token]) if node else None,
            "argmax": int(logits[node].argmax()),
            "top_token_ids": top.indices[node].tolist(),
            "top_log_probs": top.values[node].tolist(),
        }
        for node, (token, parent) in enumerate(zip(tree.token_ids, tree.parent_ids, strict=True))
    ]
    outcome = verify_tree_greedy(tree, logits.argmax(-1))
    path, token_ids = list(outcome.accepted_path), outcome.token_ids
    return {"nodes": nodes, "accepted_path": path, "token_ids": token_ids}


def _read_request(text: str) -> dict[str, Any]:
    try:
        request = json.loads(text)
    except ValueError as error:
        raise InputError(f"stdin: not valid JSON ({error})") from error
    for key in ("prompt", "tokens", "parent_ids"):
        if not isinstance(request, dict) or key not in request:
            raise InputError(f"stdin: key {key!r} is missing; give prompt, tokens and parent_ids")
    for key in ("tokens", "parent_ids"):
        _check_ids(request, key)
    return request


def _check_ids(request: dict[str, Any], key: str) -> list[int]:
    values = request[key]
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise InputError(f"stdin: {key} must be a list of whole numbers")
    return values


def _prompt_ids(prompt: object, tokenizer: Tokenizer) -> list[int]:
    """A text, or its token ids."""
    if isinstance(prompt, str):
        token_ids = tokenizer.encode(prompt)
    else:
        token_ids = _check_ids({"prompt": prompt}, "prompt")
    if not token_ids:
        raise InputError("stdin: the prompt holds no tokens")
    return token_ids


def _tree(root_token: int, token_ids: list[int], parent_ids: list[int]) -> DraftTree:
    if len(token_ids) != len(parent_ids):
        raise InputError(f"stdin: {len(token_ids)} tokens but {len(parent_ids)} parent_ids")
    try:
        return DraftTree.from_draft(root_token, token_ids, parent_ids)
    except TreeError as error:
        raise InputError(f"stdin: {error}") from error


def _soak(options: argparse.Namespace) -> None:
    if options.rounds < 1:
        raise InputError(f"--rounds must be 1 or more, got {options.rounds}")
    with torch.inference_mode():
        reports = [asdict(report) for report in soak(options.rounds, options.seed)]
    print(json.dumps(reports, indent=None if options.json else 2))
