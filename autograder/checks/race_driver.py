"""What both workers of the race of Lesson 8 run before a student's cells: the engine itself.

The grader reads this file as text and sends it; it never imports it. It holds nothing secret. In
the student's worker `choose_spec_method` is the student's; the other has none and needs none.
"""

import math
from typing import Any

import torch

from kernels.kv_pool import SequenceKV
from lessons.lib.draft.registry import make_proposer
from lessons.lib.engine import Engine
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.loader import load_model
from lessons.lib.model.weights import EMBEDDING, expected_shapes
from lessons.lib.tree import DraftTree

race_model, race_tokenizer = load_model(dtype="bfloat16")
race_engine = Engine(race_model, race_tokenizer)


def race_decode(
    texts: list[str],
    num_tokens: int,
    methods: list[dict[str, Any]],
    baseline_ms: float,
    budget_gb: float,
) -> list[list[int]]:
    """Token ids of each text's continuation; without methods by the target alone."""
    answers = []
    for text in texts:
        name = "baseline"
        if methods:
            chosen = choose_spec_method(methods, baseline_ms, budget_gb)  # type: ignore # noqa: F821
            name = chosen[0]
        proposer, depth = None, 0
        if name != "baseline":
            method, _, words = name.rpartition("-")
            proposer, depth = make_proposer(method, race_model), int(words)
        prompt_ids = _prompt_ids(text)
        result = race_engine.generate(
            prompt_ids, num_tokens, proposer=proposer, depth=depth, ignore_eos=True
        )
        answers.append(result.token_ids)
    return answers


@torch.inference_mode()
def race_gap(text: str, token_ids: list[int]) -> float:
    """How far below the best logit a token of a continuation lies, at most: 0 is greedy."""
    prompt_ids = _prompt_ids(text)
    pool, kv = race_engine.model.new_pool(4096, 16), SequenceKV()
    chain = DraftTree.chain([*prompt_ids, *token_ids[:-1]])
    batch = prepare_batch(pool, [(kv, chain)], [len(token_ids)])
    logits = race_model.forward(batch, pool).float()
    given = logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None])[:, 0]
    return float((logits.max(dim=1).values - given).max())


def race_facts() -> dict[str, Any]:
    """Bytes of weights that any forward pass reads, and the device."""
    shapes = expected_shapes(race_model.config)
    if not race_model.config.tie_word_embeddings:
        del shapes[EMBEDDING]  # of which a pass reads some rows only
    num_weights = sum(math.prod(shape) for shape in shapes.values())
    return {
        "bytes": num_weights * race_model.dtype.itemsize,
        "device": race_model.device.type,
    }


def _prompt_ids(text: str) -> list[int]:
    return race_tokenizer.apply_chat_template([{"role": "user", "content": text}])
