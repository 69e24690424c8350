"""A real HTTP server around a tiny engine, and a gate that holds the engine where a test wants."""

import threading
import time
from contextlib import contextmanager

import uvicorn
from batch_kit import tiny_engine

from lessons.lib.serve.app import ModelServer
from lessons.lib.serve.counters import ServingCounters
from lessons.lib.serve.engine_thread import EngineThread

PATIENCE_S = 60


class Gate:
    """An observer that stops the engine after step `number` until it is opened."""

    def __init__(self, number=None):
        self.number, self.num_steps = number, 0
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, engine, record):
        self.num_steps += 1
        if self.num_steps == self.number:
            self.reached.set()
            assert self.opened.wait(PATIENCE_S)


class House:
    def __init__(self, url, model_server, thread, counters, records):
        self.url, self.model_server = url, model_server
        self.thread, self.counters, self.records = thread, counters, records


@contextmanager
def serving(method="none", depth=4, max_open=8, gate=None, **engine_settings):
    counters, records = ServingCounters(), []
    observers = [counters, lambda _, record: records.append(record)]
    observers += [gate] if gate else []
    engine = tiny_engine(**engine_settings)
    with EngineThread(engine, method, depth, observers) as thread:
        model_server = ModelServer(thread, counters, "tiny", max_open)
        server = uvicorn.Server(uvicorn.Config(model_server.app(), port=0, log_level="error"))
        listening = threading.Thread(target=server.run, daemon=True)
        listening.start()
        wait_until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield House(f"http://127.0.0.1:{port}", model_server, thread, counters, records)
        finally:
            if gate:
                gate.opened.set()
            server.should_exit = True
            listening.join(PATIENCE_S)


def wait_until(is_so):
    """For what another thread will do sooner or later."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def long_prompt(count):
    """A prompt whose greedy answer is `count` tokens long, and that answer."""
    for start in range(2, 90):
        text = " ".join(f"<{(start + k) % 90 + 2}>" for k in range(4))
        engine = tiny_engine()
        answer = engine.generate(engine.tokenizer.encode(text), count)
        if answer.finish_reason == "length":
            return text, answer.text
    raise AssertionError("every answer ends early")
