"""Lab 8E: the proposer with a wiring over plain data, and the wirings that its curves come from."""

import json
import random

import pytest
import torch
from drafter_kit import random_net
from unit_kit import ROOT, cells, run, solution

from autograder.checks.lab08e import judge_live
from kernels.runtime import InputError
from lessons.lib.bench.mtp_wirings import WIRINGS, curve, engine_rows, replay, write
from lessons.lib.checks import lab08e as checks
from lessons.lib.checks.asking import Rejected
from lessons.lib.checks.wiring_curves import COUNTS, NAMES, drawn_pair
from lessons.lib.draft.mtp import MtpProposer
from lessons.lib.plugs.lab08e import WiredMtpProposer
from tests.batch_kit import random_ids, tiny_engine, tiny_model

DEPTH = 3
SETUP = [cell.source for cell in cells("lab08e", "setup")]


def answer():
    return run(*SETUP, *(cell.source for cell in solution("lab08e").cells))[0]["mtp_rows"]


def net():
    return random_net("mtp"), tiny_model()[0]


def chains(proposer, seed=5):
    """Drafts of rounds that accept none, some and all; the target's states are made up."""
    model, rng = tiny_model()[0], random.Random(seed)
    text, features, found = random_ids(9, seed), torch.Generator().manual_seed(seed), []
    known = 0
    for num in (0, 3, 1, 0, 2, 3, 3, 0):
        count = len(text) - 1 - known
        states = torch.randn(count, model.config.hidden_size, generator=features)
        split = rng.randint(1, count)  # a prompt comes in chunks
        for start, end in ((0, split), (split, count)):
            if end > start:
                behind = text[known + start + 1 : known + end + 1]
                proposer.observe_features(known + start, states[start:end], behind)
        found.append(proposer.propose(text, DEPTH).token_ids)
        known = len(text) - 1
        text = text + found[-1][:num] + [rng.randrange(90)]
    return found


def test_the_answer_drafts_as_the_courses_own_proposer():
    own = chains(MtpProposer(*net()))
    assert chains(WiredMtpProposer(*net(), answer())) == own
    assert chains(WiredMtpProposer(*net(), engine_rows)) == own


@pytest.mark.parametrize("name", sorted(set(WIRINGS) - {"right"}))
def test_a_wrong_wiring_drafts_otherwise(name):
    assert chains(WiredMtpProposer(*net(), WIRINGS[name])) != chains(MtpProposer(*net()))


def test_no_wiring_changes_the_engines_text():
    prompt, engine = random_ids(11, seed=3), tiny_engine(token_budget=8)
    expected = engine.generate(prompt, 16, ignore_eos=True).token_ids
    for wire in (*WIRINGS.values(), answer()):
        proposer = WiredMtpProposer(*net(), wire)
        found = engine.generate(prompt, 16, proposer=proposer, depth=DEPTH, ignore_eos=True)
        assert found.token_ids == expected


def test_a_replay_is_the_engines_rounds():
    module, model = net()
    module.start_from(model)
    engine, prompt = tiny_engine(), random_ids(13, seed=2)
    (text, _) = write(engine, module, [("chat", prompt), ("json", random_ids(7, seed=4))], 40)
    result = engine.generate(prompt, 40, proposer=MtpProposer(module, model), depth=DEPTH)
    rounds = [r.accepted for r in result.rounds]
    replayed = replay(WiredMtpProposer(module, model, engine_rows), text, DEPTH)
    assert replayed == rounds[: len(replayed)] and len(replayed) >= 8 and set(replayed) > {0}


BAD = {
    "num_kept is 9": (9, []),
    "no row before it": (0, []),
    "must return": 3,
    "rows as": (0, [(1, "target", 0)]),
    "a state is": (0, [(1, "mine", 0, 0)]),
    "no state target 70": (0, [(1, "target", 70, 0)]),
    "no state own 0": (0, [(1, "own", 0, 0)]),
    "no token 1000": (0, [(1000, "target", 0, 0)]),
    "no position -1": (0, [(1, "target", 0, -1)]),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_not_there_cannot_be_asked_for(message):
    with pytest.raises(InputError, match=message):
        chains(WiredMtpProposer(*net(), lambda *_: BAD[message]))


# --- what the checks rest on ---------------------------------------------------------------------
def test_the_rows_of_the_check_are_the_engines():
    cases = [case for life in checks.lives(random.Random(4)) for case in life]
    assert len({len(case.rows) for case in cases}) > 3 and any(c.num_guessed > 2 for c in cases)
    for case in cases:
        assert engine_rows(*case.arguments) == (case.num_kept, case.rows)


def test_the_counts_are_those_of_the_ledger():
    ledger = json.loads((ROOT / "course/results/mtp_wirings.json").read_text("utf-8"))
    measured = {(row["wiring"], row["kind"]): row["counts"] for row in ledger["results"]}
    assert {(w, k): c for w, kinds in COUNTS.items() for k, c in kinds.items()} == measured


def test_a_drawn_curve_falls_and_has_its_own_number_of_rounds():
    rng = random.Random(3)
    for name in NAMES * 5:
        for drawn in drawn_pair(rng, name):
            assert drawn == sorted(drawn, reverse=True) and drawn[0] > 10_000
    assert drawn_pair(rng, "right")[0][0] != drawn_pair(rng, "right")[1][0]


def test_live_compares_round_by_round_and_may_decide_nothing():
    good = [0, 3, 1, 0]
    assert "2.00 tokens a round" in judge_live(curve(good, 3), curve(good, 3), good, good)
    for bad in ([0, 3, 0, 1], [0, 3, 1]):
        with pytest.raises(Rejected, match="the course's own wiring") as caught:
            judge_live(curve(bad, 3), curve(good, 3), bad, good)
        assert caught.value.verdict == "fail"
    hard = [0, 2, 0]
    with pytest.raises(Rejected) as caught:
        judge_live(curve(hard, 3), curve(hard, 3), hard, hard)
    assert caught.value.verdict == "inconclusive"
