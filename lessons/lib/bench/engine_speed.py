"""What the engine itself costs, whatever drafts: the parts of `bench-engine` for any device.

Contestants of a part take turns in one process, and a ratio pairs two runs of the same turn. A part
returns plain data; a figure that was not measured is None and stands in `missing` with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lessons.lib.bench.ledger import spread
from lessons.lib.bench.peer import load_peer
from lessons.lib.bench.step_times import step_times
from lessons.lib.bench.workload import Prompt
from lessons.lib.draft.registry import TARGET_ONLY, make_proposer
from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord, phase_shares
from lessons.lib.model.llama import LlamaModel

NUM_NODES = (1, 2, 4, 8, 16, 32, 64)
BATCHES = (1, 4, 8)
CONTEXT = 256
LARGE_BATCH = 8

Json = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """What every part gets. `path` is the model's, as for `load_model`."""

    engine: Engine
    prompts: Sequence[Prompt]
    path: Path | None
    dtype: str
    repeats: int
    num_new: int

    @property
    def model(self) -> LlamaModel:
        """The target."""
        return self.engine.model

    def texts(self, count: int) -> list[list[int]]:
        """Token ids of `count` prompts, from the first on and round again."""
        names = [self.prompts[i % len(self.prompts)] for i in range(count)]
        return [prompt.token_ids(self.engine.tokenizer) for prompt in names]

    def turns(self, what: str) -> Any:
        """The numbers of the repeats, with a bar."""
        return tqdm(range(self.repeats), desc=f"{self.dtype} {what}", unit="turn", leave=False)


def decode(bench: Bench) -> Json:
    """Target-only decoding at batch 1, beside transformers' greedy one: ms per token after the
    first. speedup is transformers' time over ours, by prompt and turn."""
    peer, reason = load_peer(bench.path, bench.model.dtype, bench.model.device)
    texts = bench.texts(len(bench.prompts))

    def ours(text: list[int], count: int) -> tuple[list[int], float]:
        result = bench.engine.generate(text, count, ignore_eos=True)
        return result.token_ids, result.decode_ms / (count - 1)

    rows = []
    for turn in bench.turns("decode"):
        if not turn:
            for contestant in (ours, peer.decode) if peer else (ours,):
                contestant(texts[0], bench.num_new)
        for number, text in enumerate(texts):
            row: Json = {"prompt": bench.prompts[number].name, "turn": turn}
            contestants = {"ours": ours} | ({"peer": peer.decode} if peer else {})
            is_swapped = (turn + number) % 2
            found = {}
            for name in sorted(contestants, reverse=bool(is_swapped)):
                found[name], row[f"{name}_ms"] = contestants[name](text, bench.num_new)
            if peer:
                row["same_tokens"] = found["ours"] == found["peer"]
            rows.append(row)
    return {
        "peer": peer.name if peer else None,
        "ours_ms_per_token": spread([row["ours_ms"] for row in rows]),
        "peer_ms_per_token": spread([row["peer_ms"] for row in rows]) if peer else None,
        "speedup": spread([row["peer_ms"] / row["ours_ms"] for row in rows]) if peer else None,
        "same_tokens": sum(row["same_tokens"] for row in rows) if peer else None,
        "rows": rows,
        "missing": _missing(("peer", "peer_ms_per_token", "speedup", "same_tokens"), reason),
    }


def verify(bench: Bench) -> Json:
    """ms of a forward over so many nodes a request, and relative to one node in the same turn."""
    rows = []
    for batch in tqdm(BATCHES, desc=f"{bench.dtype} verify", unit="batch", leave=False):
        times = step_times(bench.model, batch, NUM_NODES, CONTEXT, bench.repeats)
        for count in NUM_NODES:
            ratios = [mine / one for mine, one in zip(times[count], times[1], strict=True)]
            rows.append(
                {
                    "batch": batch,
                    "nodes": count,
                    "ms": spread(times[count]),
                    "to_one_node": spread(ratios),
                    "turns": len(ratios),
                }
            )
    return {"context": CONTEXT, "rows": rows, "missing": {}}


def share(bench: Bench) -> Json:
    """Share of decode steps outside the target's forward at batch 1; drafting by n-gram, which is
    no forward of a model, counts as outside."""
    rows = []
    texts = bench.texts(len(bench.prompts))
    for method, depth in ((TARGET_ONLY, 0), ("ngram", 4)):
        steps: list[StepRecord] = []
        shares = []
        for _ in bench.turns(f"share, {method}"):
            for text in texts:
                proposer = make_proposer(method)
                request = bench.engine.add_request(
                    text, bench.num_new, None, proposer, depth, ignore_eos=True
                )
                mine = _run(bench.engine, [request])
                shares.append(1 - phase_shares(mine)["verify"])
                steps += mine
        row = {"method": method, "outside_forward": spread(shares), "num_steps": len(steps)}
        rows.append(row | {"phase_shares": phase_shares(steps)})
    return {"batch": 1, "rows": rows, "missing": {}}


def batch(bench: Bench) -> Json:
    """Decoded tokens/s of a full batch and of its requests one after the other. efficiency: the
    first over batch size times the second, in the same turn; 1 is a batch that costs nothing."""
    texts = bench.texts(LARGE_BATCH)

    def tokens_per_s(groups: Sequence[Sequence[list[int]]]) -> float:
        steps: list[StepRecord] = []
        for group in groups:
            names = [
                bench.engine.add_request(text, bench.num_new, ignore_eos=True) for text in group
            ]
            steps += _run(bench.engine, names)
        emitted = sum(record.emitted for step in steps for record in step.rounds.values())
        return 1e3 * emitted / sum(step.total_ms for step in steps)

    together, alone = [], []
    for turn in bench.turns("batch"):
        for is_batch in (True, False) if turn % 2 else (False, True):
            if is_batch:
                together.append(tokens_per_s([texts]))
            else:
                alone.append(tokens_per_s([[text] for text in texts]))
    ratios = [many / one for many, one in zip(together, alone, strict=True)]
    return {
        "batch": LARGE_BATCH,
        "tokens_per_s": spread(together),
        "tokens_per_s_batch_1": spread(alone),
        "times_batch_1": spread(ratios),
        "efficiency": spread([ratio / LARGE_BATCH for ratio in ratios]),
        "turns": len(ratios),
        "missing": {},
    }


def _run(engine: Engine, names: Sequence[str]) -> list[StepRecord]:
    """Step until all are done; the records of steps in which all of them decoded."""
    steps = []
    while engine.has_work:
        steps.append(engine.step())
    for name in names:
        engine.take_result(name)
    return [step for step in steps if len(step.rounds) == len(names) and not step.prefilled]


def _missing(keys: Sequence[str], reason: str | None) -> dict[str, str]:
    return dict.fromkeys(keys, reason) if reason else {}
