"""Commands `bench`, `bench-report` and `bench-audit`: measure under load, read it, doubt it."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.runtime import DEVICES, DTYPES, InputError, resolve_device
from lessons.lib.bench import audit, report
from lessons.lib.bench.arrivals import Arrivals, ClosedLoop, OpenLoop
from lessons.lib.bench.datasets import read_prompts
from lessons.lib.bench.engine_server import engine_opener
from lessons.lib.bench.latency import Slo
from lessons.lib.bench.ledger import write_ledger
from lessons.lib.bench.machine import openmp_settings
from lessons.lib.bench.methods import parse_methods
from lessons.lib.bench.mixture import RECIPES, find_recipe, recipe_of
from lessons.lib.bench.openai_server import OpenAIServer
from lessons.lib.bench.peer_server import PEERS, Peers, check_peers
from lessons.lib.bench.predict import engine_predictor, prediction_rows
from lessons.lib.bench.run_ledger import Task, load_ledger, new_ledger
from lessons.lib.bench.step_profile import measure_profile
from lessons.lib.bench.sweep import MeasuredServer, OpenServer, Workload, plan, resume_or, run_sweep
from lessons.lib.bench.workload import SPLITS, load_prompts
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.model.tokenizer import tokenizer_from_folder

_LIMITS = {"ttft": "ttft_ms", "tpot": "tpot_ms", "e2e": "e2e_ms"}
_NOT_SETTINGS = ("run", "arguments", "json", "plots", "quiet")

Json = dict[str, Any]


def add_bench(parser: argparse.ArgumentParser) -> None:
    """What to measure, under which load, on which requests, and where the results go."""
    method = parser.add_argument_group("what is measured, always beside target-only")
    method.add_argument("--methods", type=words, metavar="A:8,B:auto", help="default: all ready")
    method.add_argument("--depth", type=int, default=4, help="where a method names none")
    method.add_argument("--peers", type=words, default=[], metavar="A,B", help=" | ".join(PEERS))
    method.add_argument("--assistant", type=Path, metavar="PATH", help="of transformers-assisted")
    method.add_argument("--server", type=_server, action="append", metavar="[NAME=]URL", default=[])
    method.add_argument("--server-model", default="default", help="its name at the servers")
    method.add_argument("--server-tokenizer", type=Path, metavar="FOLDER", help="to count tokens")
    load = parser.add_argument_group("load")
    load.add_argument("--concurrency", type=_whole, default=[], metavar="1,2,4", help="users")
    load.add_argument("--rates", type=_decimals, default=[], metavar="0.5,1", help="requests/s")
    load.add_argument("--burstiness", type=float, default=1.0, help="1 is Poisson, inf constant")
    load.add_argument("--seeds", type=_whole, default=[0, 1, 2], metavar="0,1,2")
    load.add_argument("--blocks", type=int, default=2, help="a seed")
    load.add_argument("--max-running", type=int, default=16, help="requests in a step")
    load.add_argument("--timeout", type=float, default=600.0, metavar="S", help="of a request")
    work = parser.add_argument_group("requests")
    work.add_argument("--requests", type=int, default=20, help="a point at least, all distinct")
    work.add_argument("--per-user", type=float, default=0.0, help="in a closed loop, at least")
    work.add_argument("--open-seconds", type=float, default=0.0, help="of arrivals, at least")
    work.add_argument("--warm-up", type=int, default=4, help="requests before each point")
    work.add_argument("--recipe", default="balanced", help=" | ".join(RECIPES))
    work.add_argument("--split", default="sweep", help=" | ".join(SPLITS))
    work.add_argument("--prompts", type=Path, action="append", default=[], metavar="JSONL")
    work.add_argument("--slo", type=_slo, metavar="ttft:1000,tpot:80", help="limits in ms")
    output = parser.add_argument_group("results")
    output.add_argument("--json", required=True, type=Path, metavar="OUT", help="goes on with it")
    output.add_argument("--plots", type=Path, metavar="DIR", help="pictures and a csv")
    output.add_argument("--quiet", action="store_true", help="no progress bar")
    add_model(parser)
    parser.set_defaults(run=_bench)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, in which precision, where."""
    parser.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    parser.add_argument("--dtype", default="bfloat16", help=" | ".join(DTYPES))
    parser.add_argument("--device", default="auto", help=" | ".join(DEVICES))


def add_report(parser: argparse.ArgumentParser) -> None:
    """The ledger to read."""
    parser.add_argument("ledger", type=Path, help="ledger of serving runs (json)")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pictures and a csv there")
    parser.set_defaults(run=_report)


def add_audit(parser: argparse.ArgumentParser) -> None:
    """The ledger to doubt."""
    parser.add_argument("ledger", type=Path, help="ledger of serving runs (json)")
    parser.set_defaults(run=_audit)


def words(text: str) -> list[str]:
    """Comma-separated."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(text: str) -> list[int]:
    return [int(number) for number in _decimals(text, int)]


def _decimals(text: str, kind: type = float) -> list[float]:
    try:
        return [kind(word) for word in words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not numbers: {text!r}") from None


def _slo(text: str) -> Slo:
    limits: dict[str, float] = {}
    for word in words(text):
        name, _, value = word.partition(":")
        if name not in _LIMITS:
            raise argparse.ArgumentTypeError(
                f"unknown limit {name!r}; choose from {', '.join(_LIMITS)}"
            )
        limits[_LIMITS[name]] = _decimals(value)[0]
    return Slo(**limits)


def _server(text: str) -> tuple[str, str]:
    """NAME=URL; without a name it is called "server"."""
    name, separator, url = text.partition("=")
    return (name, url) if separator and not name.startswith("http") else ("server", text)


def _bench(options: argparse.Namespace) -> int:
    loads = _loads(options)
    workload = _workload(options)
    if options.server:
        ledger = _bench_servers(options, loads, workload)
    else:
        ledger = _bench_engine(options, loads, workload)
    print(report.report(ledger))
    _say_plots(ledger, options.plots)
    findings = audit.audit(ledger)
    print(f"\n{audit.describe(findings, options.json)}")
    return 0


def _loads(options: argparse.Namespace) -> list[Arrivals]:
    closed = [ClosedLoop(users) for users in options.concurrency]
    return [*closed, *(OpenLoop(rate, options.burstiness) for rate in options.rates)]


def _workload(options: argparse.Namespace) -> Workload:
    if options.prompts:
        prompts = [prompt for path in options.prompts for prompt in read_prompts(path)]
        split, recipe = "+".join(path.name for path in options.prompts), recipe_of(prompts)
    else:
        prompts, split = load_prompts(options.split), options.split
        recipe = find_recipe(options.recipe)
    warm_up = load_prompts("heldout" if split == "main" else "main")
    sizes = options.requests, options.warm_up, options.per_user, options.open_seconds
    return Workload(recipe, split, prompts, warm_up, *sizes)


def _bench_engine(
    options: argparse.Namespace, loads: Sequence[Arrivals], workload: Workload
) -> Json:
    specs = parse_methods(options.methods, options.depth)
    check_peers(options.peers, options.concurrency)
    names = [spec.name for spec in specs] + options.peers
    tasks = plan(names, loads, options.seeds, options.blocks)
    device = resolve_device(options.device).type
    ledger = resume_or(_fresh(options, device, names), options.json)
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    peers = Peers(options.peers, options.model, options.assistant, model, tokenizer)
    ledger["not_measured"] = peers.not_measured
    tasks = [task for task in tasks if peers.wants(task)]
    engine = Engine(model, tokenizer, max_running=options.max_running, shares_prefixes=False)
    if "profile" not in ledger:
        batches = [*options.concurrency, options.max_running]
        ledger["profile"] = measure_profile(engine, batches, specs)
    own = engine_opener(engine, str(options.model or "default"), specs, ledger["profile"])

    def open_server(name: str) -> AbstractAsyncContextManager[MeasuredServer]:
        return peers.open(name) if name in peers.names else own(name)

    ledger = _sweep(options, tasks, open_server, workload, ledger)
    ledger["predictions"] = prediction_rows(ledger["points"], engine_predictor(ledger))
    write_ledger(ledger, options.json)
    return ledger


def _bench_servers(
    options: argparse.Namespace, loads: Sequence[Arrivals], workload: Workload
) -> Json:
    """Servers are named by the user; the one named "baseline" is target-only."""
    if options.peers:
        raise InputError("--peers are measured beside our own engine; leave --server out")
    urls = dict(options.server)
    if len(urls) < len(options.server):
        raise InputError("two servers have one name; give --server NAME=URL")
    tasks = [t for t in plan(list(urls), loads, options.seeds, options.blocks) if t.method in urls]
    ledger = resume_or(_fresh(options, "server", list(urls)), options.json)
    text_tokens = _token_counter(options)

    def open_server(name: str) -> OpenAIServer:
        return OpenAIServer(urls[name], options.server_model, text_tokens)

    return _sweep(options, tasks, open_server, workload, ledger)


def _token_counter(options: argparse.Namespace) -> Callable[[str], int] | None:
    if options.server_tokenizer is None:
        return None
    tokenizer = tokenizer_from_folder(options.server_tokenizer)
    return lambda text: len(tokenizer.encode(text))


def _sweep(
    options: argparse.Namespace,
    tasks: Sequence[Task],
    open_server: OpenServer,
    workload: Workload,
    ledger: Json,
) -> Json:
    try:
        return run_sweep(
            tasks,
            open_server,
            workload,
            options.slo,
            ledger,
            options.json,
            options.timeout,
            not options.quiet,
        )
    except KeyboardInterrupt:
        raise InputError(
            f"stopped; {options.json} holds what was measured so far, and the same command goes on"
        ) from None


def _fresh(options: argparse.Namespace, device: str, methods: Sequence[str]) -> Json:
    settings = {
        key: _plain(value) for key, value in vars(options).items() if key not in _NOT_SETTINGS
    }
    command = shlex.join(["python", "-m", "lessons.lib", *options.arguments])
    settings |= {"methods": list(methods), "environment": openmp_settings()}
    return new_ledger(device, command, settings)


def _plain(value: Any) -> Any:
    """As it comes back from a file, so that a later run can compare."""
    if isinstance(value, Slo):
        return asdict(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) or value in (math.inf,) else value


def _report(options: argparse.Namespace) -> int:
    ledger = load_ledger(options.ledger)
    print(report.report(ledger))
    _say_plots(ledger, options.plots)
    return 0


def _say_plots(ledger: Json, folder: Path | None) -> None:
    if folder is not None:
        for path in report.write_plots(ledger, folder):
            print(f"wrote {path}")


def _audit(options: argparse.Namespace) -> int:
    findings = audit.audit(load_ledger(options.ledger))
    print(audit.describe(findings, options.ledger))
    return 1 if findings else 0
