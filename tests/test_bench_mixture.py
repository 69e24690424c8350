"""Recipes: shares, lengths, distinct prompts, and what is refused."""

import shlex
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kernels.runtime import InputError
from lessons.lib.bench.mixture import (
    RECIPES,
    Lengths,
    Part,
    Recipe,
    draw_requests,
    find_recipe,
    fingerprint,
    quotas,
)
from lessons.lib.bench.peer_server import check_peers
from lessons.lib.bench.workload import HELD_OUT, KINDS, Prompt, load_prompts
from lessons.lib.cli import _build_parser

PASSAGE = "word " * 90


def plenty(count=60):
    """More prompts of each kind than any test asks for."""
    return [
        Prompt(kind, f"{kind}-{i}", f"Question {i} about {kind}?\n\nFact {i}. {PASSAGE}")
        for kind in KINDS
        for i in range(count)
    ]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("count", [1, 7, 60])
def test_shares_are_met_to_within_one_request(name, count):
    recipe = find_recipe(name)
    kinds = Counter(request.kind for request in draw_requests(recipe, plenty(), count, seed=3))
    assert sum(kinds.values()) == count
    assert all(abs(kinds[part.kind] - part.share * count) < 1 for part in recipe.parts)


def test_quotas_give_the_rest_to_the_largest_remainders():
    part = RECIPES["balanced"].parts[0]
    shares = (0.5, 0.26, 0.24)
    recipe = Recipe("x", tuple(Part(part.kind, s, 0.0, part.output) for s in shares))
    assert quotas(recipe, 10) == [5, 3, 2]
    assert quotas(recipe, 1) == [1, 0, 0]


def test_all_prompts_are_distinct_and_come_from_the_pool():
    pool = plenty()
    requests = draw_requests(RECIPES["balanced"], pool, 100, seed=0)
    assert len({request.prompt for request in requests}) == 100
    assert len({request.request_id for request in requests}) == 100
    known = {prompt.text for prompt in pool}
    assert all(request.prompt in known for request in requests if request.kind != "copy")


def test_a_seed_fixes_everything_and_another_changes_order_and_lengths():
    def draw(seed):
        return draw_requests(RECIPES["balanced"], plenty(), 40, seed)

    assert draw(1) == draw(1)
    assert fingerprint(draw(1)) == fingerprint(draw(1)) != fingerprint(draw(2))
    assert [r.kind for r in draw(1)] != [r.kind for r in draw(2)]
    assert fingerprint(draw(1)) != fingerprint(draw(1)[::-1])


def test_kinds_are_mixed_and_not_sent_one_after_another():
    kinds = [request.kind for request in draw_requests(RECIPES["balanced"], plenty(), 100, seed=0)]
    changes = sum(a != b for a, b in zip(kinds, kinds[1:], strict=False))
    assert changes > 60  # 79 expected of random order; 4 if sent kind by kind


def test_chat_is_warm_and_the_rest_is_greedy():
    requests = draw_requests(RECIPES["balanced"], plenty(), 50, seed=0)
    assert {r.kind for r in requests if r.temperature >= 0.7} == {"chat"}
    assert {r.temperature for r in requests if r.kind != "chat"} == {0.0}


def test_lengths_follow_their_law():
    lengths, rng = Lengths(100, 0.7, 10, 10_000), np.random.default_rng(0)
    drawn = np.array([lengths.draw(rng) for _ in range(20_000)])
    assert np.median(drawn) == pytest.approx(100, rel=0.03)
    assert np.quantile(drawn, 0.9) == pytest.approx(245, rel=0.05)
    tight = Lengths(100, 0.7, 80, 120)
    assert {80, 120} <= {tight.draw(rng) for _ in range(200)} <= set(range(80, 121))
    assert {Lengths(64, 0.0, 1, 99).draw(rng) for _ in range(5)} == {64}


def test_long_context_puts_the_question_behind_a_pile_of_passages():
    requests = draw_requests(RECIPES["agent"], plenty(), 60, seed=0)
    copies = [request.prompt for request in requests if request.kind == "copy"]
    sizes = [len(prompt.split()) for prompt in copies]
    assert min(sizes) >= 150 and len(set(sizes)) > 3
    for prompt in copies:
        question = prompt.rsplit("\n\n", 1)[1]
        number, topic = question.split(" ")[2], question.split("Question ")[1].split(" ")[0]
        about = prompt.split(f"Passage {number}:\n")[1].split("\n\n")[0]
        assert about.startswith(f"Fact {topic}.")  # the passage it names is the one it asks about


def test_bundled_prompts_serve_small_runs_and_say_when_they_do_not():
    requests = draw_requests(RECIPES["balanced"], load_prompts("heldout"), 20, seed=0)
    assert len({request.prompt for request in requests}) == 20
    with pytest.raises(InputError, match=r"60 'maths' requests .* there are 4; ask for fewer"):
        draw_requests(RECIPES["reasoning"], load_prompts("heldout"), 100, seed=0)


def test_long_contexts_from_few_passages_stay_distinct():
    output, context = Lengths(8, 0, 8, 8), Lengths(400, 0.5, 150, 1200)
    recipe = Recipe("long", (Part("copy", 1.0, 0.0, output, context),))
    prompts = {r.prompt for r in draw_requests(recipe, load_prompts("main"), 100, seed=0)}
    assert len(prompts) == 100


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: find_recipe("random"), "random tokens inflate acceptance"),
        (lambda: find_recipe("best"), "choose one of balanced"),
        (lambda: Lengths(5, 0.1, 6, 9), "least <= median"),
        (lambda: Part("chat", 1.0, 0.0, Lengths(5, 0, 5, 5), Lengths(5, 0, 5, 5)), "context"),
        (lambda: Recipe("half", RECIPES["balanced"].parts[:2]), "do not sum to 1"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


def test_make_bench_asks_for_what_can_be_had():
    """The recipe of the Makefile is parsed by the command, and its prompts suffice at each draw."""
    root = Path(__file__).parents[1]
    dry = ["make", "-n", "-C", str(root), "bench"]
    said = subprocess.run(dry, capture_output=True, text=True, check=True).stdout
    lines = said.replace("\\\n", " ").splitlines()
    commands = [
        line.partition("-m lessons.lib ")[2] for line in lines if "lessons.lib bench" in line
    ]
    assert [words.split()[0] for words in commands] == ["bench", "bench-report", "bench-audit"]
    options = _build_parser().parse_args(shlex.split(commands[0]))
    check_peers(options.peers, options.concurrency)
    recipe, prompts = find_recipe(options.recipe), load_prompts(options.split)
    assert options.split in HELD_OUT and len(options.seeds) >= 3
    for seed in options.seeds:
        for block in range(options.blocks):
            drawn = draw_requests(recipe, prompts, options.requests, seed * 1000 + block)
            assert {request.kind for request in drawn} == {part.kind for part in recipe.parts}
