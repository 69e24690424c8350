"""The server over real HTTP: answers, streams, refusals, clients that leave, and its counters."""

import asyncio
import json
import threading

import httpx
import pytest
from batch_kit import tiny_engine
from serve_kit import Gate, long_prompt, serving, wait_until

from lessons.lib import metrics
from lessons.lib.bench.arrivals import ClosedLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.openai_server import OpenAIServer
from lessons.lib.bench.run_ledger import load_ledger
from lessons.lib.bench.server_counters import parse_counters
from lessons.lib.cli import main

PROMPT, ANSWER = long_prompt(40)
GREEDY = {"prompt": PROMPT, "max_tokens": 40, "temperature": 0}


@pytest.fixture(scope="module")
def house():
    with serving("ngram") as found:
        yield found


def post(house, body, path="/v1/completions"):
    return httpx.post(house.url + path, json=body, timeout=60)


def events(response):
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_completion_is_what_the_engine_says(house):
    body = post(house, GREEDY).json()
    assert body["object"] == "text_completion" and body["model"] == "tiny"
    (choice,) = body["choices"]
    assert choice["text"] == ANSWER and choice["finish_reason"] == "length"
    assert body["usage"] == {"prompt_tokens": 4, "completion_tokens": 40, "total_tokens": 44}


def test_a_stream_carries_several_tokens_a_chunk_and_counts_them(house):
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts = events(post(house, GREEDY | {"stream": True, "stream_options": options}))
    chunks, last = parts[:-1], parts[-1]
    assert "".join(part["choices"][0]["text"] for part in chunks) == ANSWER
    counts = [part["usage"]["completion_tokens"] for part in chunks]
    assert counts == sorted(counts) and counts[-1] == 40 and len(counts) < 40
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == 40
    assert [p["choices"][0]["finish_reason"] for p in chunks][-2:] == [None, "length"]


def test_a_stream_reports_usage_only_when_asked(house):
    parts = events(post(house, GREEDY | {"stream": True}))
    assert not any("usage" in part for part in parts)


def test_chat_speaks_the_chat_format(house):
    message = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    engine = tiny_engine()
    ids = engine.tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}])
    expected = engine.generate(ids, 12).text
    body = {"messages": message, "max_completion_tokens": 12, "temperature": 0}
    whole = post(house, body, "/v1/chat/completions").json()
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": expected}
    parts = events(post(house, body | {"stream": True}, "/v1/chat/completions"))
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert "".join(delta["content"] for delta in deltas) == expected
    assert [("role" in delta) for delta in deltas] == [True] + [False] * (len(deltas) - 1)
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}


def test_stop_strings_and_seeds(house):
    stopped = post(house, GREEDY | {"stop": ANSWER[8:13]}).json()["choices"][0]
    assert stopped["text"] == ANSWER[: ANSWER.index(ANSWER[8:13])]
    assert stopped["finish_reason"] == "stop"
    warm = GREEDY | {"temperature": 1.0, "seed": 5}
    texts = [post(house, warm | {"seed": seed}).json()["choices"][0]["text"] for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": ""}, "prompt must be a text"),
        ({"prompt": PROMPT, "n": 2}, "n=2 is not served"),
        ({"prompt": PROMPT, "logprobs": 3}, "logprobs=3 is not served"),
        ({"prompt": PROMPT, "max_tokenz": 3}, "unknown field 'max_tokenz'"),
        ({"prompt": PROMPT, "max_tokens": "3"}, "max_tokens has the wrong type"),
        ({"prompt": PROMPT, "max_tokens": True}, "max_tokens has the wrong type"),
        ({"prompt": PROMPT, "max_tokens": 0}, "max_new_tokens must be 1 or more"),
        ({"prompt": PROMPT, "max_tokens": 9999}, "exceed the model's context"),
        ({"prompt": PROMPT, "temperature": -1}, "temperature must be 0 or more"),
        ({"prompt": PROMPT, "stop": ["a"] * 5}, "stop must be"),
        ([], "must be a JSON object"),
    ],
)
def test_what_is_not_served_is_refused_by_name(house, body, message):
    answer = post(house, body)
    assert answer.status_code == 400 and message in answer.json()["error"]["message"]


def test_bodies_that_are_no_json_or_too_long(house):
    broken = httpx.post(house.url + "/v1/completions", content=b"{half")
    assert broken.status_code == 400 and "not valid JSON" in broken.json()["error"]["message"]
    long = httpx.post(house.url + "/v1/completions", content=b" " * 2**23)
    assert long.status_code == 400 and "larger than" in long.json()["error"]["message"]
    assert httpx.get(house.url + "/v1/completions").status_code == 405
    chat = [{"role": "user", "content": [{"type": "image_url"}]}]
    refused = post(house, {"messages": chat}, "/v1/chat/completions")
    assert "only text" in refused.json()["error"]["message"]


def test_health_models_and_metrics(house):
    assert httpx.get(house.url + "/health").status_code == 200
    assert httpx.get(house.url + "/v1/models").json()["data"][0]["id"] == "tiny"
    page = httpx.get(house.url + "/metrics").text
    assert "# TYPE specdec:spec_decode_num_drafts_total counter" in page
    found = parse_counters(page)
    assert found["num_requests_running", None] == found["num_requests_waiting", None] == 0
    assert found["kv_pages_used", None] == 0


def test_a_full_house_turns_away_at_once_and_serves_on():
    with serving(max_open=2) as house:
        opened = threading.Event()
        house.thread.post(lambda: opened.wait(60))  # the engine stands still
        answers = []
        waiting = [
            threading.Thread(target=lambda: answers.append(post(house, GREEDY))) for _ in range(2)
        ]
        for thread in waiting:
            thread.start()
        wait_until(lambda: house.model_server.num_open == 2)
        refused = post(house, GREEDY)
        assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
        opened.set()
        for thread in waiting:
            thread.join()
        assert [a.json()["choices"][0]["text"] for a in answers] == [ANSWER] * 2
        assert post(house, GREEDY).status_code == 200
        totals = house.counters.totals
        assert (totals["num_requests"], totals["num_rejected"], totals["num_cancelled"]) == (
            3,
            1,
            0,
        )


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_that_leaves_frees_its_pages(is_stream):
    gate = Gate(number=5)
    with serving(gate=gate) as house:

        async def ask():
            async with httpx.AsyncClient(base_url=house.url, timeout=60) as client:
                body = GREEDY | {"stream": is_stream}
                async with client.stream("POST", "/v1/completions", json=body) as answer:
                    async for _ in answer.aiter_lines():
                        pass

        async def impatient():
            task = asyncio.create_task(ask())
            await asyncio.to_thread(gate.reached.wait, 60)
            task.cancel()

        asyncio.run(impatient())
        wait_until(lambda: house.counters.totals["num_cancelled"] == 1)
        gate.opened.set()  # the engine was in the middle of the request all along
        state = asyncio.run(
            house.thread.call(lambda e: (e.pool.allocator.num_owned, len(e.running), e.has_work))
        )
        assert state == (0, 0, False) and gate.num_steps == 5
        assert post(house, GREEDY).json()["choices"][0]["text"] == ANSWER


def test_a_stopped_engine_is_unhealthy_and_says_so():
    gate = Gate(number=3)
    with serving(gate=gate) as house:
        answers = []
        stream = threading.Thread(
            target=lambda: answers.append(post(house, GREEDY | {"stream": True}))
        )
        stream.start()
        assert gate.reached.wait(60)
        house.thread.stop()
        gate.opened.set()
        stream.join()
        assert "the engine was stopped" in answers[0].text and "[DONE]" not in answers[0].text
        assert httpx.get(house.url + "/health").status_code == 503
        assert post(house, GREEDY).status_code == 503
        assert httpx.get(house.url + "/metrics").status_code == 200


# --- the benchmark's client against it -----------------------------------------------------------


def test_the_client_counts_what_the_engine_emitted():
    """Chunks carry several tokens; acceptance from /metrics is that of the rounds that drafted."""
    prompts = [" ".join(f"<{(5 * i + k % 3) % 90 + 2}>" for k in range(9)) for i in range(6)]
    asked = [Request(str(i), "chat", text, 20, 0.0, i) for i, text in enumerate(prompts)]
    with serving("ngram", depth=3) as house:

        async def work():
            async with OpenAIServer(house.url, "tiny") as server:
                await drive(server, asked[:1], ClosedLoop(1), 0)
                await server.start_counting()
                house.records.clear()
                log = await drive(server, asked[1:], ClosedLoop(3), 0)
                return log, await server.facts()

        log, facts = asyncio.run(work())
        records = list(house.records)
    engine = tiny_engine()
    for request, felt in zip(asked[1:], log.requests, strict=True):
        ids = engine.tokenizer.apply_chat_template([{"role": "user", "content": request.prompt}])
        assert felt.error is None
        assert felt.output_tokens == len(engine.generate(ids, 20).token_ids)
    assert max(c.num_tokens for felt in log.requests for c in felt.chunks) > 1
    rounds = [r for step in records for r in step.rounds.values() if r.proposed]
    assert facts.acceptance_length == pytest.approx(metrics.acceptance_length(rounds))
    assert facts.verify_efficiency == pytest.approx(metrics.verify_efficiency(rounds))
    expected = [share for share in metrics.acceptance(rounds).survival if share]
    assert facts.acceptance["survival"] == pytest.approx(expected)
    assert facts.preemptions == 0


def test_bench_measures_two_servers_and_goes_on(tmp_path, capsys):
    """`bench --server` from the command line to the ledger, over HTTP."""
    prompts = [" ".join(f"<{(5 * i + k % 3) % 90 + 2}>" for k in range(9)) for i in range(6)]
    rows = [json.dumps({"question": text, "answer": ""}) for text in prompts]
    (tmp_path / "maths.jsonl").write_text("\n".join(rows))
    out = tmp_path / "ledger.json"
    command = ["bench", "--prompts", str(tmp_path / "maths.jsonl"), "--requests", "3", "--quiet"]
    command += ["--warm-up", "1", "--concurrency", "1,2", "--seeds", "0", "--blocks", "1"]
    command += ["--slo", "ttft:5000", "--server-model", "tiny", "--json", str(out)]
    with serving() as plain, serving("ngram", depth=3) as drafted:
        command += ["--server", f"baseline={plain.url}", "--server", f"ngram={drafted.url}/v1"]
        assert main(command) == 0
        counts = [house.counters.totals["num_requests"] for house in (plain, drafted)]
        assert main(command) == 0  # all points are there, so nobody is asked anything
        assert counts == [house.counters.totals["num_requests"] for house in (plain, drafted)]
    ledger = load_ledger(out)
    assert len(ledger["points"]) == 2 * 2 and ledger["machine"]["device"] == "server"
    runs = [1 + len(point["validity"]["discarded"]) for point in ledger["points"]]
    assert sum(counts) == (3 + 1) * sum(runs)
    parity = ledger["length_parity"]
    assert len(parity) == 2 and all(row["same_share"] == 1 for row in parity)
    for point in ledger["points"]:
        assert point["figures"]["num_failed"] == 0 and point["preemptions"] == 0
        assert point["figures"]["num_good"] == 3
        if point["method"] == "ngram":
            assert point["acceptance_length"] > 1 and point["acceptance"]["survival"]
        else:
            assert point["acceptance"] is None and "no speculative" in str(point["missing"])
    assert "baseline-differs" not in capsys.readouterr().out
