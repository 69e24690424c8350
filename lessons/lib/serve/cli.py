"""`serve`: the engine behind an OpenAI-compatible API until it is interrupted."""

from __future__ import annotations

import argparse

import uvicorn

from kernels.runtime import DEVICES, DTYPES, InputError
from lessons.lib.draft.registry import TARGET_ONLY, check_method, make_proposer, method_names
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.serve.app import ModelServer
from lessons.lib.serve.counters import ServingCounters
from lessons.lib.serve.engine_thread import EngineThread

_SECONDS_TO_CLOSE = 5


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Where to listen, what to serve, how many at a time."""
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 opens it to the network")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--method", default=TARGET_ONLY, help=" | ".join(method_names()))
    parser.add_argument("--depth", type=int, default=4, help="draft tokens a round, at most")
    parser.add_argument("--max-running", type=int, default=16, help="requests in a step")
    parser.add_argument("--max-open", type=int, default=64, help="running and waiting, else 429")
    parser.add_argument("--served-name", default="default", help="the model's name in the API")
    parser.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    parser.add_argument("--dtype", default="bfloat16", help=" | ".join(DTYPES))
    parser.add_argument("--device", default="auto", help=" | ".join(DEVICES))
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    check_method(options.method)
    if options.max_open < 1:
        raise InputError(f"--max-open must be 1 or more, got {options.max_open}")
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    make_proposer(options.method, model)  # missing weights show before the first request
    engine = Engine(model, tokenizer, max_running=options.max_running)
    counters = ServingCounters()
    depth = 0 if options.method == TARGET_ONLY else options.depth
    with EngineThread(engine, options.method, depth, [counters]) as thread:
        print(f"serving {options.served_name} at http://{options.host}:{options.port}/v1")
        server = ModelServer(thread, counters, options.served_name, options.max_open)
        uvicorn.run(
            server.app(),
            host=options.host,
            port=options.port,
            log_level="warning",
            timeout_graceful_shutdown=_SECONDS_TO_CLOSE,
        )
