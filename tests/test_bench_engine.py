"""Our engine under the driver: chunks are what it emitted, facts are what its steps did."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from batch_kit import tiny_engine, tiny_model
from block_kit import block_net
from engine_models import reference_model, write_folder

from kernels.runtime import InputError
from lessons.lib import metrics
from lessons.lib.bench import cli as bench_cli
from lessons.lib.bench import engine_server, pace
from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.audit import audit
from lessons.lib.bench.driver import drive
from lessons.lib.bench.engine_server import engine_opener, weight_bytes
from lessons.lib.bench.methods import method_spec, pacing_of, parse_methods
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.run import BASELINE, MethodSpec
from lessons.lib.bench.run_ledger import load_ledger, point_key
from lessons.lib.bench.step_facts import prefill_means
from lessons.lib.cli import main
from lessons.lib.draft import registry

PLAIN, NGRAM = MethodSpec("none", 0), MethodSpec("ngram", 4)
THREE_USERS = ClosedLoop(3)
PROMPTS = [" ".join(f"<{(7 * i + k) % 90 + 2}>" for k in range(12)) for i in range(8)]


def requests(count=8, most=24, temperature=0.0):
    return [Request(str(i), "chat", PROMPTS[i], most, temperature, i) for i in range(count)]


def measure(spec, asked=None, load=THREE_USERS, **settings):
    engine = tiny_engine(shares_prefixes=False, **settings)
    open_server = engine_opener(engine, "tiny", [PLAIN, NGRAM])

    async def work():
        async with open_server(spec.name) as server:
            await drive(server, requests(2), ClosedLoop(1), 0)
            await server.start_counting()
            log = await drive(server, asked or requests(), load, 0)
            return log, await server.facts()

    return engine, *asyncio.run(work())


def alone(request):
    engine = tiny_engine()
    ids = engine.tokenizer.apply_chat_template([{"role": "user", "content": request.prompt}])
    return engine.generate(ids, request.max_new_tokens).token_ids


@pytest.mark.parametrize("spec", [PLAIN, NGRAM], ids=lambda s: s.name)
@pytest.mark.parametrize("load", [ClosedLoop(3), OpenLoop(200.0)], ids=["closed", "open"])
def test_tokens_are_those_of_the_engine_and_little_holds(spec, load):
    engine, log, facts = measure(spec, load=load)
    assert [r.output_tokens for r in log.requests] == [len(alone(r)) for r in requests()]
    assert all(r.error is None for r in log.requests) and log.little_gap() < 0.01
    carried = [chunk.num_tokens for r in log.requests for chunk in r.chunks]
    assert max(carried) == 1 if spec is PLAIN else max(carried) > 1
    rounds = sum(len(r.chunks) - 1 for r in log.requests)  # the first token is the prefill's
    assert facts.acceptance_length == pytest.approx((sum(carried) - len(log.requests)) / rounds)


def test_facts_are_complete_and_without_the_warm_up():
    engine, log, facts = measure(NGRAM)
    assert facts.phase_shares.keys() == set(metrics.STEP_PHASES)
    assert sum(facts.phase_shares.values()) == pytest.approx(1)
    assert facts.round_ms["rows"] > facts.round_ms["requests"] > 1
    message = [[{"role": "user", "content": r.prompt}] for r in requests()]
    prompts = [len(engine.tokenizer.apply_chat_template(m)) for m in message]
    assert facts.prefill["tokens"] == sum(prompts) / len(prompts)
    assert facts.prefill["beside_ms"] >= 0
    assert 0 < facts.verify_efficiency < 1 and facts.preemptions == 0
    assert facts.memory_gb["weights"] == weight_bytes(engine.model) / 1e9 > 0
    assert facts.memory_gb["kv_cache"] > 0
    assert {k for k, v in facts.memory_gb.items() if v is None} == {"graphs", "peak"}
    assert facts.missing.keys() == {"memory_gb.graphs", "memory_gb.peak"}
    assert facts.setup["shares_prefixes"] is False and facts.setup["num_threads"] >= 1


def test_what_prompts_take_beside_the_forward_is_told_apart_from_rounds():
    def step(beside, rounds=(), prefilled=()):
        phases = dict.fromkeys(metrics.STEP_PHASES, 0.0) | {"verify": 50.0, "draft": beside}
        a_round = metrics.RoundRecord(0, 0, 1, 0.0, 0.0, 0.0)
        return metrics.StepRecord(
            dict.fromkeys(rounds, a_round), dict(prefilled), (), (), phases, 1, 1, 1, 1, 1
        )

    steps = [
        step(4.0, rounds=("a", "b")),
        step(2.0, rounds=("a",)),
        step(9.0, rounds=("a",), prefilled=[("c", 30)]),  # 2 for the round of a, 7 for c
        step(5.0, prefilled=[("c", 10), ("d", 20)]),
    ]
    assert prefill_means(steps) == {"tokens": 30.0, "beside_ms": 6.0}
    assert prefill_means(steps[:2]) is None


def test_target_only_and_method_ran_under_the_same_setup():
    assert measure(PLAIN)[2].setup == measure(NGRAM)[2].setup


def test_an_adaptive_depth_is_fresh_at_each_point_and_leaves_the_next_alone():
    """Random texts: nothing is accepted, so the controller goes down; the text stays the same."""
    engine = tiny_engine(shares_prefixes=False)
    auto = MethodSpec("ngram", 7, is_adaptive=True)
    open_server = engine_opener(engine, "tiny", [PLAIN, NGRAM, auto])

    async def work(name):
        async with open_server(name) as server:
            pacing = engine.pacing
            log = await drive(server, requests(), THREE_USERS, 0)
            return pacing, log, await server.facts()

    first, log, facts = asyncio.run(work(auto.name))
    second = asyncio.run(work(auto.name))[0]
    fixed, fixed_log, fixed_facts = asyncio.run(work(NGRAM.name))
    assert auto.name == "ngram-auto" and first is not second
    assert first.depth_policy is not None is not second.depth_policy
    assert fixed.depth_policy is None
    assert [r.output_tokens for r in log.requests] == [len(alone(r)) for r in requests()]
    assert len(facts.acceptance["proposed"]) != len(fixed_facts.acceptance["proposed"])
    assert facts.setup == fixed_facts.setup


def test_a_planner_is_fresh_at_each_point_and_the_text_stays(monkeypatch):
    """At free rows it verifies whole blocks, where each row costs it verifies fewer. Nothing of the
    random network is accepted, so what would turn its drafting off is left out."""
    always = SimpleNamespace(depth=lambda _batch: 5, observe=lambda _rounds, _ms: None)
    monkeypatch.setattr(pace, "AdaptiveDepth", lambda _candidates: always)
    genuine = registry.DRAFTERS["dspark"]
    model = tiny_model()[0]
    net = replace(genuine, load=lambda path, *_: block_net("dspark", model.config))
    monkeypatch.setitem(registry.DRAFTERS, "dspark", net)
    engine = tiny_engine(shares_prefixes=False)
    planned = MethodSpec("dspark", 5, is_planned=True)

    def efficiency(row_ms):
        times = [[1 + row_ms * batch * count for count in range(1, 7)] for batch in (1, 16)]
        profile = {"batches": [1, 16], "tokens": [*range(1, 7)], "times_ms": times}
        open_server = engine_opener(
            engine, "tiny", [PLAIN, planned], profile | {"beside_ms": {planned.name: [0.1, 0.1]}}
        )

        async def work():
            async with open_server(planned.name) as server:
                log = await drive(server, requests(), THREE_USERS, 0)
                return engine.pacing, log, await server.facts()

        pacing, log, facts = asyncio.run(work())
        assert [r.output_tokens for r in log.requests] == [len(alone(r)) for r in requests()]
        return pacing, facts

    (free, whole), (dear, few) = efficiency(0.0), efficiency(10.0)
    assert planned.name == "dspark-5-compact" and free is not dear
    assert free.verify_planner is not dear.verify_planner
    assert few.round_ms["rows"] / few.round_ms["requests"] < 0.8 * (
        whole.round_ms["rows"] / whole.round_ms["requests"]
    )
    assert few.setup == whole.setup
    with pytest.raises(InputError, match="plans by step times"):
        pacing_of(planned, {"times_ms": None})


def test_weights_are_counted_once():
    model, _ = tiny_model()
    unfused = reference_model("qwen3")
    assert weight_bytes(model) == sum(p.nbytes for p in unfused.parameters())


def test_a_small_pool_preempts_and_the_ledger_says_so():
    _, log, facts = measure(PLAIN, num_kv_tokens=256, page_size=4, load=ClosedLoop(8),
                            asked=[replace(r, max_new_tokens=60) for r in requests()])  # fmt: skip
    assert facts.preemptions > 0 and all(r.error is None for r in log.requests)


def test_a_request_that_cannot_run_fails_alone_and_a_late_one_is_given_up():
    asked = [*requests(3), replace(requests()[3], max_new_tokens=10_000)]
    _, log, _ = measure(PLAIN, asked)
    assert [r.error is None for r in log.requests] == [True, True, True, False]
    assert "exceed the model's context" in log.requests[3].error

    async def impatient():
        async with engine_opener(tiny_engine(shares_prefixes=False), "tiny", [PLAIN])(
            BASELINE
        ) as server:
            return await drive(server, requests(2, most=200), ClosedLoop(2), 0, timeout_s=1e-6)

    assert {r.error for r in asyncio.run(impatient()).requests} == {"TimeoutError"}


def test_drafters_state_is_watched():
    class Hoarder:
        memory_bytes = 1500

    log = engine_server.StepLog(weight_bytes=500)

    class TwoRunning:
        running = [type("R", (), {"proposer": Hoarder()})] * 2

    for _ in range(9):
        log(TwoRunning(), object())
    assert log.draft_state_bytes == 2000 and len(log.steps) == 9
    log.clear()
    assert log.draft_state_bytes == 0 and log.steps == []


def test_prefixes_must_not_be_shared_between_methods():
    with pytest.raises(InputError, match="shares_prefixes=False"):
        engine_opener(tiny_engine(), "tiny", [PLAIN])


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("none", "baseline"),
        ("ngram", "ngram-4"),
        ("eagle3:2", "eagle3-2"),
        ("mtp:auto", "mtp-auto"),
        ("dspark:compact", "dspark-4-compact"),
        ("dspark:6:compact", "dspark-6-compact"),
    ],
)
def test_words_of_the_command_are_methods(word, name):
    assert method_spec(word, depth=4).name == name


def test_make_bench_asks_for_methods_that_there_are():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text("utf-8")
    words = re.search(r"^BENCH_METHODS \?= (\S+)$", makefile, re.MULTILINE)[1].split(",")
    specs = parse_methods(words, depth=4)
    assert specs[0] == PLAIN and len(specs) == 1 + len(words)
    trained = {"standalone", "eagle3", "mtp", "frozen_kv_mtp", "dflash", "dspark"}
    assert {spec.method for spec in specs} == trained | {"none", "ngram"}
    assert sum(spec.is_adaptive for spec in specs) == sum(spec.is_planned for spec in specs) == 1


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Runs `bench` on a tiny model and a file of prompts; returns the exit code."""
    folder = tmp_path_factory.mktemp("bench")
    write_folder(reference_model("qwen3", num_hidden_layers=1), folder / "model")
    rows = [{"question": prompt, "answer": ""} for prompt in PROMPTS]
    (folder / "maths.jsonl").write_text("\n".join(map(json.dumps, rows)))
    fixed = ["--model", str(folder / "model"), "--dtype", "float32", "--device", "cpu"]
    fixed += ["--prompts", str(folder / "maths.jsonl"), "--requests", "2", "--warm-up", "1"]

    def run(out, *arguments):
        return main(["bench", *fixed, "--quiet", "--json", str(out), *arguments])

    return run


SMALL = ["--methods", "ngram:3", "--concurrency", "1,2", "--slo", "ttft:5000,tpot:1000"]


def test_the_whole_chain(bench, tmp_path, capsys):
    out, plots = tmp_path / "ledger.json", tmp_path / "plots"
    assert bench(out, *SMALL, "--rates", "50", "--blocks", "2", "--plots", str(plots)) == 0
    text, ledger = capsys.readouterr().out, load_ledger(out)
    assert len(ledger["points"]) == 2 * 3 * 3 * 2
    assert [p["figures"]["num_failed"] for p in ledger["points"]] == [0] * 36
    loads = {"concurrency 1", "concurrency 2", "rate 50 poisson"}
    assert {row["load"] for row in ledger["predictions"]} == loads
    assert ledger["profile"]["batches"] == [1, 2, 16] and len(ledger["profile"]["times_ms"]) == 3
    # A file of maths is one category, and nobody knows whether it was held out.
    rules = {finding.rule for finding in audit(ledger)} - {"unknown-code", "driver-late"}
    assert rules == {"one-category-only", "not-held-out"}
    assert "Speedup (output_tokens_per_s) against concurrency" in text and "findings" in text
    assert (plots / "speedup-concurrency.png").exists() and (plots / "points.csv").exists()


def test_a_killed_command_goes_on(bench, tmp_path, capsys, monkeypatch):
    out, opened = tmp_path / "ledger.json", []
    few = [*SMALL, "--seeds", "0", "--blocks", "2"]
    genuine = bench_cli.engine_opener

    def opener(dies_at):
        def make(*arguments):
            open_server = genuine(*arguments)

            def open_or_die(name):
                if len(opened) == dies_at:
                    raise KeyboardInterrupt
                opened.append(name)
                return open_server(name)

            return open_or_die

        return make

    monkeypatch.setattr(bench_cli, "engine_opener", opener(5))
    assert bench(out, *few) == 2
    assert "the same command goes on" in capsys.readouterr().err
    kept = load_ledger(out)["points"]
    assert len(kept) == 5
    monkeypatch.setattr(bench_cli, "engine_opener", opener(None))
    assert bench(out, *few) == 0
    ledger = load_ledger(out)
    assert len(opened) == len(ledger["points"]) == 8 and ledger["points"][:5] == kept
    assert len({point_key(p) for p in ledger["points"]}) == 8
    assert bench(out, *few) == 0 and len(opened) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "oracle", "--rates", "1"], "unknown method 'oracle'"),
        (["--methods", "ngram:x", "--rates", "1"], "a whole number, auto or compact"),
        (["--methods", "none:auto", "--rates", "1"], "a whole number, auto or compact"),
        (["--methods", "ngram:4:compact", "--rates", "1"], "only dspark drafts with confidences"),
        (["--methods", "dspark:4:5", "--rates", "1"], "a whole number, auto or compact"),
        (["--methods", "ngram:0", "--rates", "1"], "depth must be 1 or more"),
        (["--methods", "ngram"], "nothing to measure"),
        (["--rates", "fast"], "not numbers: 'fast'"),
        (["--rates", "1", "--slo", "speed:3"], "unknown limit 'speed'"),
        (["--rates", "1", "--server", "a=http://x", "--server", "a=http://y"], "one name"),
    ],
)
def test_what_cannot_be_measured_is_one_line(bench, tmp_path, capsys, arguments, message):
    assert bench(tmp_path / "x.json", *arguments) == 2
    assert message in capsys.readouterr().err
