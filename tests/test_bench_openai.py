"""The client of production servers, over real HTTP against a small scripted server."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.arrivals import ClosedLoop
from lessons.lib.bench.driver import drive
from lessons.lib.bench.mixture import Request
from lessons.lib.bench.openai_server import OpenAIServer
from lessons.lib.bench.server_counters import parse_counters

METRICS = """\
# HELP vllm:spec_decode_num_drafts_total Number of drafts.
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} %(drafts)s
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} %(tokens)s
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} %(accepted)s
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} %(first)s
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} %(second)s
vllm:num_preemptions_total{engine="0",model_name="m"} %(preemptions)s
"""
EMPTY = dict.fromkeys(("drafts", "tokens", "accepted", "first", "second", "preemptions"), 100.0)
USED = {"drafts": 110.0, "tokens": 120.0, "accepted": 112.0, "first": 108.0, "second": 104.0}
USED["preemptions"] = 103.0


def chunk(text, tokens=None):
    event = {"choices": [{"delta": {"content": text}}]}
    return event if tokens is None else event | {"usage": {"completion_tokens": tokens}}


def last(tokens):
    return {"choices": [], "usage": {"completion_tokens": tokens}}


ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
BUNDLED = [ROLE, chunk("a", 1), chunk("b c d", 4), chunk("", 4), chunk("e", 6), last(6), "[DONE]"]
PLAIN = [ROLE, chunk("a"), chunk(" b c"), chunk(" d"), last(4), "[DONE]"]


class Script:
    """What the server answers, and what it was asked."""

    def __init__(self, events=(), status=200, pages=()):
        self.events, self.status, self.pages, self.bodies = events, status, list(pages), []


@pytest.fixture
def serve():
    servers = []

    def start(script):
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                page = script.pages.pop(0) if script.pages else None
                self.send_response(200 if page else 404)
                self.end_headers()
                self.wfile.write((page or "").encode())

            def do_POST(self):
                size = int(self.headers["Content-Length"])
                script.bodies.append((self.path, json.loads(self.rfile.read(size))))
                self.send_response(script.status)
                self.end_headers()
                self.wfile.write(b": keep alive\n\n")
                for event in script.events:
                    data = event if isinstance(event, str) else json.dumps(event)
                    self.wfile.write(f"data: {data}\n\n".encode())

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def request(name="0"):
    return Request(name, "chat", "Say something.", 16, 0.8, 7)


def ask(url, count_tokens=None, count=1):
    async def work():
        async with OpenAIServer(url, "m", count_tokens) as server:
            return await drive(server, [request(str(i)) for i in range(count)], ClosedLoop(2), 0)

    return asyncio.run(work()).requests


def words(text):
    return len(text.split())


def test_tokens_are_counted_by_usage_when_a_chunk_carries_several(serve):
    script = Script(BUNDLED)
    (log,) = ask(serve(script))
    assert log.error is None
    assert [mark.num_tokens for mark in log.chunks] == [1, 3, 2]
    path, body = script.bodies[0]
    assert path == "/v1/chat/completions"
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (body["max_tokens"], body["temperature"], body["model"]) == (16, 0.8, "m")


def test_a_tokenizer_counts_where_usage_comes_only_at_the_end(serve):
    (log,) = ask(serve(Script(PLAIN)), words)
    assert log.error is None and [mark.num_tokens for mark in log.chunks] == [1, 2, 1]


def test_counts_that_disagree_fail_the_request(serve):
    (log,) = ask(serve(Script([*PLAIN[:-2], last(9), "[DONE]"])), words)
    assert log.error.startswith("counted 4 tokens in chunks, the server reports 9")


def test_tokens_that_nobody_counts_fail_the_request(serve):
    (log,) = ask(serve(Script([*PLAIN[:-2], "[DONE]"])))
    assert "tokens cannot be counted" in log.error
    (log,) = ask(serve(Script(PLAIN)))
    assert "counted 0 tokens" in log.error


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script(BUNDLED[:3]), "broke off before [DONE]"),
        (Script([], status=503), "status 503"),
        (Script([{"error": "overloaded"}]), "the server reports overloaded"),
        (Script(["{half"]), "not JSON"),
    ],
)
def test_what_goes_wrong_is_a_failed_request(serve, script, message):
    logs = ask(serve(script), count=3)
    assert len(logs) == 3 and all(message in log.error for log in logs)


def test_an_absent_server_is_a_failed_request_and_a_bad_url_an_error():
    (log,) = ask("http://127.0.0.1:1")
    assert log.error.startswith("ConnectError")
    with pytest.raises(InputError, match="http://host:port"):
        OpenAIServer("localhost:8000", "m")


def test_a_request_that_takes_too_long_is_broken_off_at_the_server(serve):
    class Endless(Script):
        hung_up = threading.Event()

        @property
        def events(self):
            try:
                for tokens in range(1, 100_000):
                    yield chunk("x", tokens)
            finally:
                self.hung_up.set()  # writing failed: the client closed its connection

        @events.setter
        def events(self, value):
            pass

    async def work():
        async with OpenAIServer(serve(Endless()), "m") as server:
            return await drive(server, [request()], ClosedLoop(1), 0, timeout_s=0.2)

    (log,) = asyncio.run(work()).requests
    assert log.error == "TimeoutError" and log.output_tokens > 0
    assert Endless.hung_up.wait(timeout=30)


def facts(url):
    async def work():
        async with OpenAIServer(url, "m", setup={"graphs": True}) as server:
            await server.start_counting()
            return await server.facts()

    return asyncio.run(work())


def test_speculative_counters_since_the_warm_up(serve):
    """10 drafts of 2 tokens: 8 accepted at the first position, 4 at the second, 12 in all."""
    found = facts(serve(Script(pages=[METRICS % EMPTY, METRICS % USED])))
    assert found.acceptance["survival"] == [0.8, 0.4]
    assert found.acceptance["conditional"] == pytest.approx([0.8, 0.5])
    assert found.acceptance["proposed"] == [1.0, 1.0]
    assert found.acceptance_length == pytest.approx(2.2)
    assert found.preemptions == 3
    assert found.setup == {"engine": "openai", "model": "m", "graphs": True}


def test_uneven_drafts_leave_the_proposals_unknown(serve):
    found = facts(serve(Script(pages=[METRICS % EMPTY, METRICS % (USED | {"tokens": 117.0})])))
    assert found.acceptance["proposed"] is None and "acceptance.proposed" in found.missing


@pytest.mark.parametrize("pages", [[], [METRICS % EMPTY], [METRICS % EMPTY] * 2, ["x 1\n"] * 2])
def test_counters_that_are_absent_are_missing_and_not_zero(serve, pages):
    found = facts(serve(Script(pages=pages)))
    assert found.acceptance is None and found.acceptance_length is None
    assert "acceptance" in found.missing


def test_counters_are_summed_over_engines():
    page = 'a_total{engine="0"} 2\na_total{engine="1"} 3.5\nb{position="2"} 1\n# a_total 9\n'
    assert parse_counters(page) == {("a", None): 5.5, ("b", 2): 1.0}


SGLANG = """\
# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="m",is_streaming="true"}} {tokens}
sglang:num_requests_total{{model_name="m",is_streaming="true"}} {requests}
sglang:spec_verify_calls_total{{model_name="m"}} {rounds}
sglang:num_retracted_requests_total{{model_name="m"}} {retracted}
sglang:spec_accept_length{{model_name="m"}} 9.9
"""


def test_sglangs_counters_give_the_length_and_no_positions(serve):
    """4 requests of 225 tokens in all, whose first tokens are the prefill's: 221 in 100 rounds."""
    pages = [SGLANG.format(tokens=1000, requests=10, rounds=300, retracted=2)]
    pages += [SGLANG.format(tokens=1225, requests=14, rounds=400, retracted=3)]
    found = facts(serve(Script(pages=pages)))
    assert found.acceptance_length == pytest.approx(2.21)
    assert found.preemptions == 1
    assert found.acceptance is None and "not by position" in found.missing["acceptance"]


def test_verify_efficiency_is_emitted_over_verified_rows(serve):
    """10 rounds of 2 drafts and a root each are 30 rows; 12 accepted and 10 more came out."""
    found = facts(serve(Script(pages=[METRICS % EMPTY, METRICS % USED])))
    assert found.verify_efficiency == pytest.approx(22 / 30)


def test_a_page_that_is_not_prometheus_is_as_good_as_none(serve):
    found = facts(serve(Script(pages=["<html>}{ 1 2 3", "x{ 1"])))
    assert found.missing["acceptance"] == "the server has no /metrics"
