"""Command line of the engine: `generate` one text, and checks (cli_checks).

Measuring is in bench/cli.py and bench/compare_cli.py, serving in serve/cli.py."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn

from kernels.runtime import DEVICES, DTYPES, InputError
from lessons.lib import metrics
from lessons.lib.bench import pace
from lessons.lib.bench.cli import add_audit, add_bench, add_report
from lessons.lib.bench.compare_cli import add_compare, add_compare_all, add_compare_report
from lessons.lib.bench.draft_trees import add_compare_trees
from lessons.lib.bench.engine_bench import add_bench_engine
from lessons.lib.cli_checks import add_soak, add_verify_tree
from lessons.lib.config import SamplingParams
from lessons.lib.draft.registry import (
    TARGET_ONLY,
    check_method,
    make_proposer,
    method_names,
)
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.sequence import GenerationResult
from lessons.lib.serve.cli import add_serve


class _Parser(argparse.ArgumentParser):
    """Reports a bad argument the way the rest of the course does: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it worked, 1 for findings, 2 when the user has to change something."""
    try:
        options = _build_parser().parse_args(arguments)
        options.arguments = sys.argv[1:] if arguments is None else list(arguments)
        return options.run(options) or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m lessons.lib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_generate(commands.add_parser("generate", help="generate one text"))
    add_compare(commands.add_parser("compare", help="measure methods on the bundled prompts"))
    every = commands.add_parser("compare-all", help="every method, kind, depth and batch: a ledger")
    add_compare_all(every)
    shown = commands.add_parser(
        "compare-report", help="what a compare-all ledger says of the goals"
    )
    add_compare_report(shown)
    add_bench(commands.add_parser("bench", help="measure methods under load, beside target-only"))
    add_report(commands.add_parser("bench-report", help="tables and pictures of a bench ledger"))
    add_audit(commands.add_parser("bench-audit", help="how a bench ledger could mislead"))
    speed = commands.add_parser("bench-engine", help="what the engine itself costs, as a ledger")
    add_bench_engine(speed)
    trees = commands.add_parser("compare-trees", help="dynamic against fixed draft trees")
    add_compare_trees(trees)
    add_serve(commands.add_parser("serve", help="an OpenAI-compatible server of the engine"))
    verify = commands.add_parser("verify-tree", help="score {prompt, tokens, parent_ids} of stdin")
    add_verify_tree(verify)
    _add_model_options(verify)
    add_soak(commands.add_parser("soak", help="random rounds on the KV pool, books checked"))
    return parser


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    parser.add_argument("--dtype", default="bfloat16", help=" | ".join(DTYPES))
    parser.add_argument("--device", default="auto", help=" | ".join(DEVICES))
    parser.add_argument("--seed", type=int, default=0)


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", required=True, help="what the user says to the model")
    parser.add_argument("--raw", action="store_true", help="continue the text, no chat template")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--method", default=TARGET_ONLY, help=" | ".join(method_names()))
    parser.add_argument("--depth", type=_depth, default=4, help="drafts a round, at most, or auto")
    parser.add_argument("--pacing", help="what of a draft is verified: " + " | ".join(pace.MODES))
    parser.add_argument("--draft", type=Path, metavar="PATH", help="weights of the method")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--top-k", type=int, default=0, help="0 is off")
    parser.add_argument("--top-p", type=float, default=1.0, help="1 is off")
    parser.add_argument("--json", action="store_true", help="print tokens and metrics as JSON")
    _add_model_options(parser)
    parser.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> None:
    sampling = SamplingParams(options.temperature, options.top_k, options.top_p, options.seed)
    check_method(options.method, options.draft)  # fails before anything is loaded
    engine = Engine(*load_model(options.model, options.dtype, options.device))
    proposer = make_proposer(
        options.method, engine.model, sampling, options.draft, engine.tokenizer
    )
    if options.raw:
        prompt_ids = engine.tokenizer.encode(options.prompt)
    else:
        message = {"role": "user", "content": options.prompt}
        prompt_ids = engine.tokenizer.apply_chat_template([message])
    depth = _pace(engine, options)
    result = engine.generate(prompt_ids, options.max_new_tokens, sampling, proposer, depth)
    text = engine.tokenizer.decode(result.token_ids)
    print(json.dumps(_report(prompt_ids, result, text), indent=2) if options.json else text)


def _depth(text: str) -> int | str:
    try:
        return text if text == pace.AUTO else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a whole number, nor auto: {text!r}") from None


def _pace(engine: Engine, options: argparse.Namespace) -> int:
    """Give the engine the pacing that was asked for; returns the most drafts of a round."""
    if options.depth == pace.AUTO:
        if options.pacing:
            raise InputError("--pacing shortens drafts of a fixed depth: give --depth a number")
        engine.pacing, deepest = pace.adaptive_depth()
        return deepest
    if options.pacing:
        if options.method == TARGET_ONLY:
            raise InputError("--pacing shortens drafts, and target-only has none: give --method")
        make = partial(
            make_proposer, options.method, engine.model, None, options.draft, engine.tokenizer
        )
        engine.pacing = pace.planned_verification(engine, make, options.depth, options.pacing)
    return int(options.depth)


def _report(prompt_ids: list[int], result: GenerationResult, text: str) -> dict[str, object]:
    return {
        "prompt_token_ids": prompt_ids,
        "token_ids": result.token_ids,
        "text": text,
        "num_rounds": len(result.rounds),
        "acceptance": asdict(metrics.acceptance(result.rounds)),
        "acceptance_length": metrics.acceptance_length(result.rounds),
        "prefill_ms": result.prefill_ms,
        "phase_ms": metrics.phase_ms(result.rounds),
        "tokens_per_s": metrics.tokens_per_s(result.rounds),
        "extra_memory_bytes": result.extra_memory_bytes,
    }
