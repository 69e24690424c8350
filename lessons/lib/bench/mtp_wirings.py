"""What a wrong wiring of the MTP module costs: rounds replayed over texts that the target wrote.

python -m lessons.lib.bench.mtp_wirings --json course/results/mtp_wirings.json

A greedy draft is accepted where it is the text's next token, so once the target has written a text
the rounds of any drafter on it need no further pass of the target. No clock is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from kernels.runtime import InputError
from lessons.lib.bench.ledger import environment
from lessons.lib.bench.workload import KINDS
from lessons.lib.draft.mtp import load_mtp
from lessons.lib.draft.mtp_net import MtpNet
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.draft.registry import DRAFTERS
from lessons.lib.engine import Engine
from lessons.lib.model.llama import LlamaModel
from lessons.lib.model.loader import load_model
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.plugs.lab08e import OWN, TARGET, Row, Wire, WiredMtpProposer
from lessons.lib.train.prompts import draw_prompt

SCHEMA = "specdec-mtp-wirings/1"
DEPTH, SEED = 5, 991
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
        """They come in order, without gaps; from the start again after a preemption."""
        self.parts = [*(self.parts if start else []), features]

    def forget(self) -> None:
        """Keep them: they are what this is for."""


@dataclass(frozen=True)
class Written:
    """A prompt with the target's greedy answer; features [len - 1, hidden] of all but the last."""

    kind: str
    token_ids: list[int]
    prompt_len: int
    features: torch.Tensor


def drawn_prompts(
    tokenizer: Tokenizer, count: int, seed: int = SEED, kinds: Sequence[str] = KINDS
) -> list[tuple[str, list[int]]]:
    """(kind, token ids) of `count` prompts of each kind: new draws from the templates whose answers
    the module learnt from, where it gets furthest."""
    drawn = [draw_prompt(seed, index) for index in range(len(KINDS) * count)]
    chats = [(kind, [{"role": "user", "content": text}]) for kind, text in drawn if kind in kinds]
    return [(kind, tokenizer.apply_chat_template(chat)) for kind, chat in chats]


def write(
    engine: Engine, net: MtpNet, prompts: Sequence[tuple[str, Sequence[int]]], num_new_tokens: int
) -> list[Written]:
    """The target's greedy answers, at most num_new_tokens long, and its states on the way.

    prompts: (kind, token ids); in float32 it does not matter that they share the steps.
    """
    recorders = [StateRecorder(net.feature_layers) for _ in prompts]
    names = [
        engine.add_request(ids, num_new_tokens, proposer=recorder, depth=1)
        for (_, ids), recorder in zip(prompts, recorders, strict=True)
    ]
    while engine.has_work:
        engine.step()
    texts = []
    for (kind, ids), recorder, name in zip(prompts, recorders, names, strict=True):
        token_ids = [*ids, *engine.take_result(name).token_ids]
        features = torch.cat(recorder.parts)[: len(token_ids) - 1]
        texts.append(Written(kind, token_ids, len(ids), features))
    return texts


def replay(proposer: WiredMtpProposer, text: Written, depth: int) -> list[int]:
    """Accepted drafts of each round in which the text has `depth` tokens left to compare with.

    A round drafts one token behind the first wrong one and no further. What would come after that
    reaches the next round only where a wiring keeps rows for which there is no committed token.
    """
    ids, length, accepted = text.token_ids, text.prompt_len + 1, []
    proposer.observe_features(0, text.features[: length - 1], ids[1:length])
    while length + depth <= len(ids):
        num, misses = 0, 0
        for token, draft in zip(ids[length:][:depth], proposer.drafts(ids[:length]), strict=False):
            misses += misses > 0 or draft != token
            num += not misses
            if misses == 2:
                break
        accepted.append(num)
        end = min(length + num + 1, len(ids))
        behind = ids[length:end]
        proposer.observe_features(length - 1, text.features[length - 1 : end - 1], behind)
        length = end
    return accepted


def curve(accepted: Sequence[int], depth: int) -> list[int]:
    """Rounds, then those with at least 1, 2, ..., depth accepted drafts."""
    return [sum(num >= place for num in accepted) for place in range(depth + 1)]


def shipped_net(model: LlamaModel) -> MtpNet:
    """The module that this course ships."""
    return load_mtp(DRAFTERS["mtp"].shipped, model)


def main() -> None:
    """Write the texts, replay the wirings, print the curves, put them into the ledger."""
    parser = argparse.ArgumentParser(prog="python -m lessons.lib.bench.mtp_wirings")
    parser.add_argument("--json", type=Path, required=True, help="the ledger to write or add to")
    parser.add_argument("--prompts", type=int, default=6, help="of each kind")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens at most")
    parser.add_argument("--wirings", nargs="+", choices=WIRINGS, default=list(WIRINGS))
    parser.add_argument("--texts", type=Path, help="keep the written texts here, or read them")
    args = parser.parse_args()
    model, tokenizer = load_model(dtype="float32")
    net, prompts = shipped_net(model), drawn_prompts(tokenizer, args.prompts)
    if args.texts and args.texts.exists():
        texts = [Written(**text) for text in torch.load(args.texts, weights_only=True)]
    else:
        texts = write(Engine(model, tokenizer), net, prompts, args.tokens)
        if args.texts:
            torch.save([vars(text) for text in texts], args.texts)
    if [text.token_ids[: text.prompt_len] for text in texts] != [ids for _, ids in prompts]:
        raise InputError(f"{args.texts} holds the texts of other prompts: remove it")
    rows = []
    for name in args.wirings:
        found: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for text in tqdm(texts, desc=name, unit="text"):
            found[text.kind] += replay(WiredMtpProposer(net, model, WIRINGS[name]), text, DEPTH)
        rows += [{"wiring": name, "kind": k, "counts": curve(found[k], DEPTH)} for k in KINDS]
        print(name, curve(sum(found.values(), []), DEPTH), flush=True)
    settings = {"prompts": args.prompts, "seed": SEED, "tokens": args.tokens, "depth": DEPTH}
    command = f"python -m lessons.lib.bench.mtp_wirings --json {args.json}"
    command += f" --prompts {args.prompts} --tokens {args.tokens}"
    ledger = environment(SCHEMA, model.device.type, command, settings | {"dtype": "float32"})
    add_to(args.json, ledger | {"results": rows})


def add_to(path: Path, ledger: dict[str, Any]) -> None:
    """Write a ledger; rows of other wirings stay if they were measured with the same settings."""
    if path.exists():
        old = json.loads(path.read_text("utf-8"))
        if old["settings"] == ledger["settings"]:
            new = {row["wiring"] for row in ledger["results"]}
            ledger["results"] += [row for row in old["results"] if row["wiring"] not in new]
    ledger["results"].sort(key=lambda row: list(WIRINGS).index(row["wiring"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{json.dumps(ledger, indent=1)}\n", "utf-8")


if __name__ == "__main__":
    main()
