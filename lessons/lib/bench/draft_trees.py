"""`compare-trees`: tokens a round of EAGLE-3's dynamic tree, of the best fixed tree of as many
guesses, and of a chain. Greedy, one request at a time; no clock is read.

The fixed tree is chosen on the prompts of "main" and compared on those of "heldout". The ledger
holds the rounds of every prompt, so that the spread between prompts can be seen; it is written
after each, so that a run that is stopped is a smaller run.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from kernels.runtime import InputError
from lessons.lib.bench.ledger import environment, write_ledger
from lessons.lib.bench.workload import KINDS, Prompt, load_prompts
from lessons.lib.config import SamplingParams
from lessons.lib.cost_tree import TreeShape, greedy_tree
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_file import SHIPPED, load_eagle3
from lessons.lib.draft.eagle3_net import Eagle3Net
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.static_tree import static_drafter
from lessons.lib.engine import Engine
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model

SCHEMA = "specdec-trees/1"
WIDTH, NUM_LEVELS = 4, 6  # of the dynamic trees; no fixed one is deeper
CHAIN = 4

Json = dict[str, Any]


def add_compare_trees(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", required=True, type=Path, metavar="OUT", help="ledger to write")
    parser.add_argument("--sizes", default="8", metavar="N,M", help="guesses of a tree")
    parser.add_argument("--limit", type=int, metavar="P", help="prompts of a kind; default all")
    parser.add_argument("--max-new-tokens", type=int, default=32, metavar="N")
    parser.set_defaults(run=_compare_trees)


def _compare_trees(options: argparse.Namespace) -> None:
    if options.max_new_tokens < 2 or (options.limit is not None and options.limit < 1):
        raise InputError("give at least one prompt of a kind and two new tokens")
    sizes = [int(size) for size in options.sizes.split(",")]
    model, tokenizer = load_model(None, "float32", "cpu")
    engine, net = Engine(model, tokenizer), load_eagle3(SHIPPED, model)
    tuned = _in_turns("main", options.limit)
    acceptance = rank_acceptance(engine, net, tuned, options.max_new_tokens)
    shapes = [greedy_tree(acceptance, 1 + size, NUM_LEVELS) for size in sizes]
    settings = {
        "sizes": sizes,
        "limit": options.limit,
        "max_new_tokens": options.max_new_tokens,
        "dtype": "float32",
        "width": WIDTH,
        "num_levels": NUM_LEVELS,
        "num_prompts_of_ranks": len(tuned),
    }
    command = f"python -m lessons.lib {shlex.join(options.arguments)}"
    runs: list[Json] = []
    results = {
        "rank_acceptance": acceptance,
        "static_parents": [list(shape.parents) for shape in shapes],
        "static_ranks": [list(shape.ranks) for shape in shapes],
        "runs": runs,
    }
    ledger = environment(SCHEMA, "cpu", command, settings) | {"results": results}
    prompts = _in_turns("heldout", options.limit)
    for prompt in tqdm(prompts, desc="comparing", unit="prompt"):
        runs += compare(engine, net, prompt, shapes, options.max_new_tokens)
        write_ledger(ledger, options.json)


def _in_turns(split: str, limit: int | None) -> list[Prompt]:
    """The first of each kind, then the second of each, and so on."""
    columns = [load_prompts(split, (kind,))[:limit] for kind in KINDS]
    return [prompt for turn in zip(*columns, strict=True) for prompt in turn]


class RankCounter(Eagle3Proposer):
    """Drafts full trees and counts which child of an accepted node was right."""

    trials: int
    hits: list[int]

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """As EAGLE-3 does."""
        self._proposal = super().propose(context_ids, num_draft_tokens)
        return self._proposal

    def observe(self, token_ids: Sequence[int]) -> None:
        """Walk down the tree with what was committed."""
        tokens, parents = self._proposal.token_ids, self._proposal.parent_ids or []
        node = -1
        for token in token_ids:
            children = [child for child, parent in enumerate(parents) if parent == node]
            if not children:
                return
            self.trials += 1
            ranks = [rank for rank, child in enumerate(children) if tokens[child] == token]
            if not ranks:
                return
            self.hits[ranks[0]] += 1
            node = children[ranks[0]]


def rank_acceptance(
    engine: Engine, net: Eagle3Net, prompts: Sequence[Prompt], max_new_tokens: int
) -> list[float]:
    """How often the j-th guess behind an accepted node was the target's token, two levels deep."""
    trials, hits = 0, [0] * WIDTH
    for prompt in tqdm(prompts, desc="ranks", unit="prompt"):
        counter = RankCounter(net, engine.model.embedding, None, WIDTH, 2)
        counter.trials, counter.hits = 0, [0] * WIDTH
        ids = prompt.token_ids(engine.tokenizer)
        engine.generate(ids, max_new_tokens, None, counter, WIDTH + WIDTH**2)
        trials += counter.trials
        hits = [all_of + own for all_of, own in zip(hits, counter.hits, strict=True)]
    return [round(count / trials, 3) for count in hits]


def compare(
    engine: Engine,
    net: Eagle3Net,
    prompt: Prompt,
    shapes: Sequence[TreeShape],
    max_new_tokens: int,
) -> list[Json]:
    """A row for each drafter: rounds, and the tokens that they emitted."""
    ids, rows = prompt.token_ids(engine.tokenizer), []
    for name, size, drafter in _drafters(engine.model, net, shapes):
        rounds = engine.generate(ids, max_new_tokens, SamplingParams(), drafter, size).rounds
        row = {"kind": prompt.kind, "prompt": prompt.name, "tree": name, "num_drafts": size}
        emitted = sum(record.emitted for record in rounds)
        rows.append(row | {"rounds": len(rounds), "tokens": emitted})
    return rows


def _drafters(
    model: LlamaModel, net: Eagle3Net, shapes: Sequence[TreeShape]
) -> list[tuple[str, int, Eagle3Proposer]]:
    drafters = [("chain", CHAIN, Eagle3Proposer(net, model.embedding))]
    for shape in shapes:
        size = len(shape.parents) - 1
        dynamic = Eagle3Proposer(net, model.embedding, None, WIDTH, NUM_LEVELS)
        drafters += [
            ("dynamic", size, dynamic),
            ("static", size, static_drafter(model, net, shape)),
        ]
    return drafters
