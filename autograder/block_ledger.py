"""What the bars of Lab 8F rest on: how the layouts of a DFlash pass differ, and how drafts decay.

python -m autograder.block_ledger --json course/results/dflash_blocks.json

All held-out prompts of some kinds, one of each kind at a time; greedy, float32. `layouts`: the
answer and every wrong fill-in in the engine: the rows of a pass against those of each request
alone, and what the target accepts. `decay`: DFlash and EAGLE-3, drafting as much as a block.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from autograder.assignment import answers_path, read_answers
from autograder.checks import lab08f as live
from autograder.fill_ins import fill_ins
from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.bench.ledger import environment
from lessons.lib.bench.workload import KINDS, load_prompts
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.proposer import Proposer
from lessons.lib.draft.registry import make_proposer
from lessons.lib.metrics import RoundRecord
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.plugs.lab08f import BlockInputs, BlockPass, DraftedRun, drafted_run

Json = dict[str, Any]

SCHEMA = "specdec-dflash-blocks/1"
UNIT, ANSWER = "lab08f", "the answer"
LAYOUTS: Json = {"kinds": list(live.KINDS), "depth": live.DEPTH, "tokens": live.NUM_NEW_TOKENS}
DECAY: Json = {"kinds": list(KINDS), "depth": 7, "tokens": 48}

Groups = list[list[list[int]]]  # prompts as token ids, a few at a time
Run = Callable[[Callable[[], Proposer | None], list[list[int]]], DraftedRun]


def main() -> int:
    """Measure, print, write the ledger."""
    parser = argparse.ArgumentParser(
        prog="python -m autograder.block_ledger", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    args = parser.parse_args()
    model, tokenizer = load_model(dtype="float32")

    def groups(settings: Json) -> Groups:
        columns = [load_prompts("heldout", (kind,)) for kind in settings["kinds"]]
        return [[p.token_ids(tokenizer) for p in group] for group in zip(*columns, strict=True)]

    def runner(settings: Json) -> Run:
        sizes = settings["depth"], settings["tokens"]
        return lambda make, prompts: drafted_run(model, tokenizer, prompts, make, *sizes)

    rows = list(layouts(model, runner(LAYOUTS), groups(LAYOUTS)))
    run, prompts = runner(DECAY), groups(DECAY)
    curves = [dflash_decay(model, run, prompts), eagle3_decay(model, run, prompts)]
    command = f"python -m autograder.block_ledger --json {args.json}"
    settings = {"layouts": LAYOUTS, "decay": DECAY}
    ledger = environment(SCHEMA, model.device.type, command, settings)
    ledger["results"] = {"layouts": rows, "decay": curves}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(f"{json.dumps(ledger, indent=1)}\n", encoding="utf-8")
    return 0


def layouts(model: LlamaModel, run: Run, groups: Groups) -> Iterator[Json]:
    """A row for the answer and for every wrong fill-in whose inputs a pass can take."""
    answers = read_answers(answers_path(UNIT, "en"))
    texts = {ANSWER: next(text for kind, text in answers.values() if kind == "code")}
    texts |= {item.name: item.text for item in fill_ins(UNIT) if item.kind == "wrong"}
    plain = [run(lambda: None, group).texts for group in groups]
    for name, text in texts.items():
        row = {"layout": name} | layout(model, run, groups, function_of(text), plain)
        print(row, flush=True)
        yield row


def layout(model: LlamaModel, run: Run, groups: Groups, inputs: BlockInputs, plain: Groups) -> Json:
    """largest_error: of any row, relative; smallest_error: the least of the groups' largest."""
    errors, runs = [], []
    for group in groups:
        shared = BlockPass(model, inputs)
        try:
            runs.append(run(shared.member, group))
        except InputError as error:
            return {"missing": str(error)}
        errors.append(shared.largest_error)
        assert shared.num_passes == runs[-1].num_steps
    rounds = [record for one in runs for record in one.rounds]
    found = {"smallest_error": min(errors), "largest_error": max(errors)}
    return found | {"same_text": [one.texts for one in runs] == plain} | figures(rounds)


def function_of(text: str) -> BlockInputs:
    """`block_inputs` of a cell of ours."""
    names: Json = {}
    exec(text, names)
    function: BlockInputs = names["block_inputs"]
    return function


def dflash_decay(model: LlamaModel, run: Run, groups: Groups) -> Json:
    """The course's own proposer, a request at a pass."""
    rounds = [
        record
        for group in groups
        for record in run(lambda: make_proposer("dflash", model), group).rounds
    ]
    return {"method": "dflash", "passes_a_round": 1.0, **figures(rounds)}


def eagle3_decay(model: LlamaModel, run: Run, groups: Groups) -> Json:
    """The same for a chain of EAGLE-3, whose passes the proposer counts."""
    proposers: list[Eagle3Proposer] = []

    def make() -> Proposer:
        made = make_proposer("eagle3", model)
        assert isinstance(made, Eagle3Proposer)
        proposers.append(made)
        return made

    rounds = [record for group in groups for record in run(make, group).rounds]
    passes = sum(proposer.num_passes for proposer in proposers) / len(rounds)
    return {"method": "eagle3", "passes_a_round": passes, **figures(rounds)}


def figures(rounds: list[RoundRecord]) -> Json:
    """Of all rounds together; `survival` and `conditional` as in `metrics.acceptance`."""
    found = metrics.acceptance(rounds)
    return {
        "rounds": len(rounds),
        "accepted": sum(record.accepted for record in rounds),
        "tokens_a_round": metrics.acceptance_length(rounds),
        "survival": found.survival,
        "conditional": found.conditional,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
