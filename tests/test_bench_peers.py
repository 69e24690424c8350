"""transformers under the driver: its tokens are the engine's, and what cannot be had says why."""

import asyncio
import builtins
import json
from dataclasses import replace

import pytest
import torch
from batch_kit import tiny_engine
from engine_models import reference_model, write_folder

from lessons.lib.bench.arrivals import ClosedLoop, OpenLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.peer import load_assistant, load_peer
from lessons.lib.bench.peer_server import PEERS, Peers
from lessons.lib.bench.run_ledger import Task, load_ledger
from lessons.lib.cli import main
from lessons.lib.draft.standalone import save_standalone
from lessons.lib.draft.standalone_net import StandaloneConfig, StandaloneNet

# One phrase over and over, so that a lookup in the prompt finds drafts.
PROMPTS = [" ".join(f"<{(i + k % 5) % 90 + 2}>" for k in range(20)) for i in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model of batch_kit, where transformers can read it too."""
    return write_folder(reference_model("qwen3"), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def peers(folder):
    engine = tiny_engine()
    return Peers(list(PEERS), str(folder), folder, engine.model, engine.tokenizer)


def requests(most=24, temperature=0.0):
    return [Request(str(i), "chat", text, most, temperature, i) for i, text in enumerate(PROMPTS)]


def measure(peers, name, asked, users=1, timeout_s=None):
    async def work():
        async with peers.open(name) as server:
            await server.start_counting()
            log = await drive(server, asked, ClosedLoop(users), 0, timeout_s)
            return log, await server.facts()

    return asyncio.run(work())


def alone(request):
    engine = tiny_engine()
    ids = engine.tokenizer.apply_chat_template([{"role": "user", "content": request.prompt}])
    return engine.generate(ids, request.max_new_tokens).token_ids


@pytest.mark.parametrize("name", PEERS)
def test_greedy_answers_are_as_long_as_the_engines(peers, name):
    log, facts = measure(peers, name, requests())
    assert [r.error for r in log.requests] == [None] * 4
    assert [r.output_tokens for r in log.requests] == [len(alone(r)) for r in requests()]
    carried = [chunk.num_tokens for r in log.requests for chunk in r.chunks]
    assert max(carried) == 1 if name == "transformers" else max(carried) > 1
    assert log.little_gap() < 0.01
    assert facts.acceptance is None and "no counters" in facts.missing["acceptance"]
    assert facts.setup["is_peer"] is True and facts.setup["dtype"] == "float32"


def test_requests_wait_for_their_turn(peers):
    log, _ = measure(peers, "transformers", requests(8), users=4)
    spans = sorted((r.chunks[0].time_s, r.chunks[-1].time_s) for r in log.requests)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))


def test_sampled_answers_follow_the_seed(peers):
    def lengths(shift):
        warm = [replace(r, seed=r.seed + shift) for r in requests(30, temperature=1.5)]
        return [r.output_tokens for r in measure(peers, "transformers", warm)[0].requests]

    assert lengths(0) == lengths(0)
    assert any(lengths(0) != lengths(shift) for shift in (1, 2, 3))


def test_one_that_is_given_up_leaves_the_next_its_turn(peers):
    async def work():
        async with peers.open("transformers") as server:
            late = await drive(server, requests(200)[:1], ClosedLoop(1), 0, timeout_s=0.01)
            return late, await drive(server, requests(4), ClosedLoop(1), 0)

    late, after = asyncio.run(work())
    assert late.requests[0].error == "TimeoutError"
    assert late.requests[0].output_tokens < 200
    assert [r.output_tokens for r in after.requests] == [len(alone(r)) for r in requests(4)]


def test_what_transformers_raises_fails_the_request_and_not_the_run(peers):
    asked = [replace(requests(4)[0], temperature=-1.0), *requests(4)[1:]]
    log, _ = measure(peers, "transformers", asked)
    assert "temperature" in log.requests[0].error
    assert [r.output_tokens for r in log.requests[1:]] == [len(alone(r)) for r in asked[1:]]


def test_peers_are_wanted_with_one_user_only(peers, folder):
    engine = tiny_engine()
    few = Peers(PEERS[:1], str(folder), None, engine.model, engine.tokenizer)
    for load, is_wanted in ((ClosedLoop(1), True), (ClosedLoop(2), False), (OpenLoop(1.0), False)):
        assert peers.wants(Task("transformers", load, 0, 0)) is is_wanted
        assert few.wants(Task("transformers-lookup", load, 0, 0)) is False  # was not asked for
        assert few.wants(Task("ngram-4", load, 0, 0)) is True


def test_a_drafter_of_the_course_assists_with_its_own_layers(folder, tmp_path):
    engine = tiny_engine()
    torch.manual_seed(0)
    net = StandaloneNet(StandaloneConfig.of(engine.model.config, 1), engine.model)
    net.start_from(engine.model, (1,))
    save_standalone(net, tmp_path / "model.safetensors", torch.float32)
    peer, _ = load_peer(folder, engine.model.dtype, engine.model.device)
    helper, _ = load_assistant(tmp_path, peer, engine.model)
    ids = torch.tensor([[3, 14, 15, 9, 2, 6]])
    with torch.inference_mode():
        found = helper.model(ids).logits
        expected = net(ids) @ engine.model.lm_head.T
        assert not torch.allclose(found, peer.model(ids).logits, atol=1e-2)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assisted = Peers(PEERS[2:], str(folder), tmp_path, engine.model, engine.tokenizer)
    log, _ = measure(assisted, PEERS[2], requests())
    assert [r.output_tokens for r in log.requests] == [len(alone(r)) for r in requests()]


def test_why_a_peer_cannot_be_had(folder, monkeypatch):
    engine = tiny_engine()
    found = Peers(list(PEERS), str(folder), None, engine.model, engine.tokenizer)
    assert found.names == list(PEERS[:2])
    assert "--assistant" in found.not_measured["transformers-assisted"]
    real = builtins.__import__

    def without(name, *rest):
        if name == "transformers":
            raise ImportError("No module named 'transformers'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    found = Peers(list(PEERS), str(folder), folder, engine.model, engine.tokenizer)
    assert found.names == [] and found.not_measured.keys() == set(PEERS)
    assert "No module named" in found.not_measured["transformers"]


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def bench(folder, tmp_path):
    rows = [{"question": prompt, "answer": ""} for prompt in PROMPTS]
    (tmp_path / "maths.jsonl").write_text("\n".join(map(json.dumps, rows)))
    fixed = ["--model", str(folder), "--dtype", "float32", "--device", "cpu", "--quiet"]
    fixed += ["--prompts", str(tmp_path / "maths.jsonl"), "--requests", "2", "--warm-up", "1"]
    fixed += ["--methods", "ngram:3", "--seeds", "0", "--blocks", "1"]
    return lambda *more: main(["bench", *fixed, "--json", str(tmp_path / "l.json"), *more])


def test_peers_stand_beside_the_methods_in_one_ledger(bench, tmp_path, capsys):
    more = ["--concurrency", "1,2", "--peers", ",".join(PEERS), "--plots", str(tmp_path / "p")]
    assert bench(*more) == 0
    text, ledger = capsys.readouterr().out, load_ledger(tmp_path / "l.json")
    ran = {(p["method"], p["arrivals"]["concurrency"]) for p in ledger["points"]}
    ours = {(method, users) for method in ("baseline", "ngram-3") for users in (1, 2)}
    assert ran == ours | {(peer, 1) for peer in PEERS[:2]}
    assert ledger["not_measured"].keys() == {"transformers-assisted"}
    parity = {row["method"]: row for row in ledger["length_parity"] if "1" in row["load"]}
    assert [parity[peer]["same_share"] for peer in PEERS[:2]] == [1, 1]
    assert "transformers-assisted was not measured" in text and "other software" in text
    assert "baseline-differs" not in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--concurrency", "1", "--peers", "vllm"], "unknown peer 'vllm'"),
        (["--concurrency", "2", "--peers", "transformers"], "add 1 to --concurrency"),
        (["--concurrency", "1", "--peers", "transformers", "--server", "http://x"], "--server out"),
    ],
)
def test_peers_that_cannot_be_are_one_line(bench, capsys, more, message):
    assert bench(*more) == 2
    assert message in capsys.readouterr().err
