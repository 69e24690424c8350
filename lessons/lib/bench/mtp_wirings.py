"""What a wrong wiring of the MTP module costs: rounds replayed over texts that the target wrote.

python -m lessons.lib.bench.mtp_wirings --json course/results/mtp_wirings.json

A greedy draft is accepted where it is the text's next token, so once the target has written a text
the rounds of any drafter on it need no further pass of the target. No clock is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from lessons.lib.bench.ledger import environment
from lessons.lib.bench.workload import KINDS, load_prompts
from lessons.lib.draft.mtp import load_mtp
from lessons.lib.draft.mtp_net import MtpNet
from lessons.lib.draft.proposer import DraftProposal, Proposer
from lessons.lib.draft.registry import DRAFTERS
from lessons.lib.engine import Engine
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.plugs.lab08e import OWN, TARGET, Row, Wire, WiredMtpProposer

SCHEMA = "specdec-mtp-wirings/1"
DEPTH = 5
Answer = tuple[int, list[Row]]


def engine_rows(token_ids: list[int], draft_ids: list[int], firm: int, guessed: int) -> Answer:
    """What the course's own proposer computes, see `Eagle3Proposer._extend` and `_next`."""
    last = len(token_ids) - 1
    if not draft_ids:
        behind = zip(range(firm, last), token_ids[firm + 1 :], strict=True)
        return firm, [(token, TARGET, place, place) for place, token in behind]
    rows = firm + guessed
    return rows, [(draft_ids[-1], OWN, rows - 1, rows)]


def unshifted(token_ids: list[int], draft_ids: list[int], firm: int, guessed: int) -> Answer:
    """A state is paired with its own token, not with the one behind it."""
    text = token_ids + draft_ids
    kept, rows = engine_rows(token_ids, draft_ids, firm, guessed)
    return kept, [(text[place], whose, index, place) for _, whose, index, place in rows]


def target_again(token_ids: list[int], draft_ids: list[int], firm: int, guessed: int) -> Answer:
    """Every further pass reads the target's last state once more."""
    kept, rows = engine_rows(token_ids, draft_ids, firm, guessed)
    last = len(token_ids) - 2
    return kept, [(token, TARGET, min(place, last), place) for token, _, _, place in rows]


def stale(token_ids: list[int], draft_ids: list[int], firm: int, guessed: int) -> Answer:
    """Rows of guesses stay where rows of committed tokens belong."""
    kept, rows = engine_rows(token_ids, draft_ids, firm, guessed)
    if not draft_ids:
        kept = min(firm + guessed, len(token_ids) - 1)
    return kept, [row for row in rows if row[3] >= kept]


def same_position(token_ids: list[int], draft_ids: list[int], firm: int, guessed: int) -> Answer:
    """Further passes stay at the position of the first one's last row."""
    kept, rows = engine_rows(token_ids, draft_ids, firm, guessed)
    last = len(token_ids) - 2
    return kept, [(token, whose, index, min(place, last)) for token, whose, index, place in rows]


WIRINGS: dict[str, Wire] = {
    "right": engine_rows,
    "unshifted": unshifted,
    "target_again": target_again,
    "stale": stale,
    "same_position": same_position,
}


class StateRecorder:
    """Drafts nothing and keeps the target's states."""

    memory_bytes = 0

    def __init__(self, feature_layers: tuple[int, ...]) -> None:
        self.feature_layers = feature_layers
        self.parts: list[torch.Tensor] = []

    def propose(self, context_ids: Sequence[int], num_draft_tokens: int) -> DraftProposal:
        """None."""
        return DraftProposal([])

    def observe(self, token_ids: Sequence[int]) -> None:
        """Nothing to do."""

    def observe_features(
        self, start: int, features: torch.Tensor, next_token_ids: Sequence[int]
    ) -> None:
        """They come in order, without gaps."""
        self.parts.append(features)

    def forget(self) -> None:
        """Keep them: they are what this is for."""


@dataclass(frozen=True)
class Written:
    """A prompt with the target's greedy answer; features [len - 1, hidden] of all but the last."""

    kind: str
    token_ids: list[int]
    prompt_len: int
    features: torch.Tensor


def write(
    engine: Engine, net: MtpNet, kind: str, prompt_ids: Sequence[int], num_new_tokens: int
) -> Written:
    """The target's greedy answer, at most num_new_tokens long, and its states on the way."""
    recorder = StateRecorder(net.feature_layers)
    result = engine.generate(prompt_ids, num_new_tokens, proposer=recorder, depth=1)
    token_ids = [*prompt_ids, *result.token_ids]
    features = torch.cat(recorder.parts)[: len(token_ids) - 1]
    return Written(kind, token_ids, len(prompt_ids), features)


def replay(proposer: Proposer, text: Written, depth: int) -> list[int]:
    """Accepted drafts of each round in which the text has `depth` tokens left to compare with."""
    observe: Callable[..., None] = proposer.observe_features  # type: ignore[attr-defined]
    ids, length, accepted = text.token_ids, text.prompt_len + 1, []
    observe(0, text.features[: length - 1], ids[1:length])
    while length + depth <= len(ids):
        drafts = proposer.propose(ids[:length], depth).token_ids
        hits = [draft == token for draft, token in zip(drafts, ids[length:], strict=False)]
        num = hits.index(False) if False in hits else depth
        accepted.append(num)
        end = min(length + num + 1, len(ids))
        observe(length - 1, text.features[length - 1 : end - 1], ids[length:end])
        length = end
    return accepted


def curve(accepted: Sequence[int], depth: int) -> list[int]:
    """Rounds, then those with at least 1, 2, ..., depth accepted drafts."""
    return [sum(num >= place for num in accepted) for place in range(depth + 1)]


def shipped_net(model: LlamaModel) -> MtpNet:
    """The module that this course ships."""
    return load_mtp(DRAFTERS["mtp"].shipped, model)


def main() -> None:
    """Write the texts, replay every wiring, print the curves, write the ledger."""
    parser = argparse.ArgumentParser(prog="python -m lessons.lib.bench.mtp_wirings")
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write")
    parser.add_argument("--prompts", type=int, default=8, help="of each kind, of split sweep")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens at most")
    args = parser.parse_args()
    model, tokenizer = load_model(dtype="float32")
    engine, net = Engine(model, tokenizer), shipped_net(model)
    prompts = [p for kind in KINDS for p in load_prompts("sweep", [kind])[: args.prompts]]
    texts = [
        write(engine, net, prompt.kind, prompt.token_ids(tokenizer), args.tokens)
        for prompt in tqdm(prompts, desc="writing", unit="text")
    ]
    rows = []
    for name, wire in WIRINGS.items():
        found: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for text in tqdm(texts, desc=name, unit="text"):
            found[text.kind] += replay(WiredMtpProposer(net, model, wire), text, DEPTH)
        rows += [{"wiring": name, "kind": k, "counts": curve(found[k], DEPTH)} for k in KINDS]
        print(name, curve(sum(found.values(), []), DEPTH), flush=True)
    settings = {"prompts": args.prompts, "split": "sweep", "tokens": args.tokens, "depth": DEPTH}
    command = f"python -m lessons.lib.bench.mtp_wirings --json {args.json}"
    command += f" --prompts {args.prompts} --tokens {args.tokens}"
    ledger = environment(SCHEMA, model.device.type, command, settings | {"dtype": "float32"})
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(f"{json.dumps(ledger | {'results': rows}, indent=1)}\n", "utf-8")


if __name__ == "__main__":
    main()
