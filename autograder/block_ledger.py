"""What the bars of Lab 8F rest on: how the layouts of a DFlash pass differ, and how drafts decay.

python -m autograder.block_ledger --json course/results/dflash_blocks.json

The target writes a greedy text behind held-out prompts, float32, one prompt of each kind at a
time. At every place of the texts drafts are asked for, and those count that the text goes on with.
So all are compared at the same places. `layouts`: the answer and every wrong fill-in, and how far
the rows of a pass are from those of each request alone. `decay`: DFlash and EAGLE-3, as many drafts
as a block has.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autograder.assignment import answers_path, read_answers
from autograder.checks import lab08f as live
from autograder.fill_ins import fill_ins
from kernels.kv_pool import SequenceKV
from lessons.lib.bench.ledger import environment
from lessons.lib.bench.workload import KINDS, load_prompts
from lessons.lib.checks.block_cases import random_case
from lessons.lib.draft.proposer import FeatureProposer
from lessons.lib.draft.registry import make_proposer
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.features import FeatureCapture
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.plugs.lab08f import BlockInputs, BlockPass, drafted_run
from lessons.lib.tree import DraftTree

Json = dict[str, Any]

SCHEMA = "specdec-dflash-blocks/1"
UNIT, ANSWER, METHODS = "lab08f", "the answer", ("dflash", "eagle3")
LAYOUTS: Json = {"kinds": list(live.KINDS), "of_a_kind": 2, "depth": live.DEPTH, "places": 16}
DECAY: Json = {"kinds": list(KINDS), "of_a_kind": 2, "depth": 7, "places": 24}


@dataclass(frozen=True)
class Told:
    """A text of the target: the last `num_new` tokens are its own; with its hidden states."""

    token_ids: list[int]
    num_new: int
    capture: FeatureCapture

    def tell(self, proposer: FeatureProposer, place: int) -> int:
        """Tell the proposer what is new before this place; where the anchor is, the new token of
        that number."""
        end = len(self.token_ids) - self.num_new + place
        start = end - 1 if place else 0
        features = self.capture.rows(proposer.feature_layers, range(start, end))
        proposer.observe_features(start, features, self.token_ids[start + 1 : end + 1])
        return end


def main() -> int:
    """Measure, print, write the ledger."""
    parser = argparse.ArgumentParser(
        prog="python -m autograder.block_ledger", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    args = parser.parse_args()
    model, tokenizer = load_model(dtype="float32")

    def groups(settings: Json) -> list[list[Told]]:
        count = settings["of_a_kind"]
        columns = [load_prompts("heldout", (kind,))[:count] for kind in settings["kinds"]]
        num_new = settings["places"] + settings["depth"]
        found = []
        for group in zip(*columns, strict=True):
            prompts = [prompt.token_ids(tokenizer) for prompt in group]
            run = drafted_run(model, tokenizer, prompts, lambda: None, 0, num_new)
            found.append([told(model, *pair) for pair in zip(prompts, run.texts, strict=True)])
        return found

    rows = list(layouts(model, groups(LAYOUTS)))
    curves = list(decay(model, groups(DECAY)))
    command = f"python -m autograder.block_ledger --json {args.json}"
    settings = {"layouts": LAYOUTS, "decay": DECAY}
    ledger = environment(SCHEMA, model.device.type, command, settings)
    ledger["results"] = {"layouts": rows, "decay": curves}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(f"{json.dumps(ledger, indent=1)}\n", encoding="utf-8")
    return 0


@torch.inference_mode()
def told(model: LlamaModel, prompt: list[int], text: list[int]) -> Told:
    """One forward over the whole text, for the hidden states that the drafters read."""
    token_ids = prompt + text
    pool, kv = model.new_pool(len(token_ids) + 64), SequenceKV()
    proposers = [make_proposer(method, model) for method in METHODS]
    layers = [n for p in proposers if isinstance(p, FeatureProposer) for n in p.feature_layers]
    capture = FeatureCapture(layers)
    model.forward(prepare_batch(pool, [(kv, DraftTree.chain(token_ids))], [0]), pool, capture)
    return Told(token_ids, len(text), capture)


def layouts(model: LlamaModel, groups: list[list[Told]]) -> Iterator[Json]:
    """A row for the answer and for every wrong fill-in. largest_error: of any row, relative to the
    largest entry; smallest_error: the least of the groups' largest ones."""
    answers = read_answers(answers_path(UNIT, "en"))
    texts = {ANSWER: next(text for kind, text in answers.values() if kind == "code")}
    texts |= {item.name: item.text for item in fill_ins(UNIT) if item.kind == "wrong"}
    sample = random_case(random.Random(0), 3)
    for name, text in texts.items():
        if name != ANSWER and list(function_of(text)(*sample.arguments)) == sample.right:
            continue  # wrong elsewhere: in what it refuses
        accepted, errors = [], []
        for group in groups:
            shared = BlockPass(model, function_of(text))
            members = [shared.member() for _ in group]
            accepted += asked(group, members, LAYOUTS)
            errors.append(shared.largest_error)
        row = {"layout": name, "smallest_error": min(errors), "largest_error": max(errors)}
        row |= figures(accepted, LAYOUTS["depth"])
        print(row, flush=True)
        yield row


def function_of(text: str) -> BlockInputs:
    """`block_inputs` of a cell of ours."""
    names: Json = {}
    exec(text, names)
    function: BlockInputs = names["block_inputs"]
    return function


def decay(model: LlamaModel, groups: list[list[Told]]) -> Iterator[Json]:
    """A row for each method."""
    for method in METHODS:
        accepted = []
        for group in groups:
            made = [make_proposer(method, model) for _ in group]
            accepted += asked(group, [p for p in made if isinstance(p, FeatureProposer)], DECAY)
        row = {"method": method, **figures(accepted, DECAY["depth"])}
        print(row, flush=True)
        yield row


def asked(group: Sequence[Told], proposers: Sequence[FeatureProposer], settings: Json) -> list[int]:
    """Accepted drafts at every place of every text, all texts going on in step."""
    accepted, depth, pairs = [], settings["depth"], list(zip(group, proposers, strict=True))
    for place in range(settings["places"]):
        ends = [text.tell(proposer, place) for text, proposer in pairs]
        for (text, proposer), end in zip(pairs, ends, strict=True):
            drafts = proposer.propose(text.token_ids[: end + 1], depth).token_ids
            follows = text.token_ids[end + 1 : end + 1 + depth]
            misses = [
                n for n, pair in enumerate(zip(drafts, follows, strict=True)) if len({*pair}) > 1
            ]
            accepted.append(misses[0] if misses else depth)
    return accepted


def figures(accepted: list[int], depth: int) -> Json:
    """survival[k]: share of the places at which the first k + 1 drafts were right; conditional: of
    those at which the first k were. None where there was none."""
    alive = [sum(count >= k for count in accepted) for k in range(depth + 1)]
    return {
        "places": len(accepted),
        "accepted": sum(accepted),
        "survival": [count / len(accepted) for count in alive[1:]],
        "conditional": [
            now / before if before else None for before, now in zip(alive, alive[1:], strict=False)
        ],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
