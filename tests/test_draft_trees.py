"""`compare-trees`: its ledger, what the course takes from it, and bad arguments."""

import random
from collections import Counter
from pathlib import Path

import pytest

from autograder.assignment import lesson_path
from autograder.checks import lab08d
from lessons.lib.bench.draft_trees import CHAIN, SCHEMA
from lessons.lib.bench.ledger import read_ledger
from lessons.lib.bench.workload import KINDS
from lessons.lib.cli import main
from lessons.lib.plugs.lab08d import RANK_ACCEPTANCE, static_shape

LEDGER = read_ledger(Path(__file__).parents[1] / "course/results/draft_trees.json", SCHEMA)
RUNS, SIZES = LEDGER["results"]["runs"], LEDGER["settings"]["sizes"]


def tokens_a_round(tree, size, runs=RUNS):
    chosen = [run for run in runs if (run["tree"], run["num_drafts"]) == (tree, size)]
    return sum(run["tokens"] for run in chosen) / sum(run["rounds"] for run in chosen)


def test_every_drafter_ran_every_prompt():
    runs = Counter((run["tree"], run["num_drafts"]) for run in RUNS)
    drafters = [("chain", CHAIN), *((tree, n) for tree in ("dynamic", "static") for n in SIZES)]
    assert set(runs) == set(drafters) and len(set(runs.values())) == 1
    assert {run["kind"] for run in RUNS} == set(KINDS)


def test_the_static_trees_are_those_of_the_lab():
    assert tuple(LEDGER["results"]["rank_acceptance"]) == RANK_ACCEPTANCE
    for size, parents, ranks in zip(
        SIZES,
        LEDGER["results"]["static_parents"],
        LEDGER["results"]["static_ranks"],
        strict=True,
    ):
        shape = static_shape(size)
        assert (list(shape.parents), list(shape.ranks)) == (parents, ranks)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_lab_quotes_the_ledger(lang):
    text = lesson_path("lab08d", lang).read_text(encoding="utf-8")
    drafters = [("chain", CHAIN), *((tree, n) for tree in ("dynamic", "static") for n in SIZES)]
    quoted = text[text.index("1.5 M") :].split("\n\n")[0]
    for tree, size in drafters:
        assert f"{tokens_a_round(tree, size):.2f}" in quoted, (tree, size)
    share = shares_above_the_bar()
    assert f"{100 * share[0]:.0f} %" in text and f"{100 * share[-1]:.1f} %" in text
    assert all(f" {count} " in quoted for count in fewer_and_more_rounds())


def fewer_and_more_rounds():
    """Prompts on which the dynamic tree took fewer rounds than the static one, and more."""
    size, rounds = lab08d.NUM_DRAFT_TOKENS, {}
    for run in RUNS:
        if run["num_drafts"] == size:
            rounds[run["kind"], run["prompt"], run["tree"]] = run["rounds"]
    gains = [
        rounds[kind, prompt, "static"] - n
        for (kind, prompt, tree), n in rounds.items()
        if tree == "dynamic"
    ]
    return sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)


def shares_above_the_bar(num_draws=4000):
    """Of draws of one prompt of each kind a turn: the bar reached in the first turn, and in any."""
    size, rng, reached = lab08d.NUM_DRAFT_TOKENS, random.Random(0), Counter()
    names = {kind: sorted({r["prompt"] for r in RUNS if r["kind"] == kind}) for kind in KINDS}
    for _ in range(num_draws):
        columns = [rng.sample(names[kind], lab08d.MAX_TURNS) for kind in KINDS]
        drawn: set[str] = set()
        for turn, prompts in enumerate(zip(*columns, strict=True)):
            drawn |= set(prompts)
            runs = [run for run in RUNS if run["prompt"] in drawn]
            ratio = tokens_a_round("dynamic", size, runs) / tokens_a_round("static", size, runs)
            if ratio >= lab08d.MIN_RATIO:
                reached.update(range(turn, lab08d.MAX_TURNS))
                break
    return [reached[turn] / num_draws for turn in range(lab08d.MAX_TURNS)]


@pytest.mark.parametrize("bad", [["--limit", "0"], ["--max-new-tokens", "1"]])
def test_bad_arguments_are_refused(bad, capsys):
    assert main(["compare-trees", "--json", "nowhere.json", *bad]) == 2
    assert "give at least" in capsys.readouterr().err
