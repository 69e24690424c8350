"""Command line of training: `data`, `eagle3`, `export` and `eval`, in the order of use."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import torch

from kernels.runtime import InputError, probe
from lessons.lib.bench.workload import KINDS, SPLITS, load_prompts
from lessons.lib.config import SamplingParams
from lessons.lib.draft.eagle3 import Eagle3Proposer
from lessons.lib.draft.eagle3_file import SHIPPED, load_eagle3
from lessons.lib.draft.proposer import Proposer
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.train.bigram import BigramProposer, bigram_table
from lessons.lib.train.data import (
    SELFGEN,
    Sample,
    read_samples,
    split_held_out,
    without_overlap,
    write_samples,
)
from lessons.lib.train.eagle3 import Eagle3Trainer, TrainSettings, load_trainer
from lessons.lib.train.evaluate import evaluate
from lessons.lib.train.export import export_eagle3
from lessons.lib.train.progress import Progress
from lessons.lib.train.text import library_samples

_CHECKPOINT = Path("build/train/eagle3.pt")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it worked, 2 when the user has to change something."""
    parser = _Parser(prog="python -m lessons.lib.train", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_data(commands.add_parser("data", help="gather texts in a token file"))
    _add_eagle3(commands.add_parser("eagle3", help="train an EAGLE-3 drafter; resumable"))
    _add_export(commands.add_parser("export", help="weights and card from a checkpoint"))
    _add_eval(commands.add_parser("eval", help="acceptance in the engine, on held-out prompts"))
    try:
        options = parser.parse_args(arguments)
        options.command = shlex.join(
            ["python", "-m", "lessons.lib.train", *(arguments or sys.argv[1:])]
        )
        options.run(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="PATH", help="target; the course's own by default")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="NPZ")
    parser.add_argument("--from", type=Path, nargs="*", default=[SELFGEN], dest="sources")
    parser.add_argument("--library-tokens", type=int, default=0, metavar="N", help="natural text")
    _add_common(parser)
    parser.set_defaults(run=_data)


def _data(options: argparse.Namespace) -> None:
    _, tokenizer = load_model(options.model, options.dtype, options.device)
    samples = library_samples(tokenizer, options.library_tokens) if options.library_tokens else []
    for source in options.sources:
        samples += read_samples(source)
    kept = without_prompts(samples, tokenizer)
    write_samples(kept, options.out)
    tokens: Counter[str] = Counter()
    for sample in kept:
        tokens[sample.kind] += sample.num_response
    print(f"{options.out}: {len(kept)} texts, response tokens {dict(tokens)}")


def _add_eagle3(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=SELFGEN, metavar="NPZ", help="token file")
    parser.add_argument("--tokens", type=int, default=500_000, metavar="N", help="to learn from")
    parser.add_argument("--checkpoint", type=Path, default=_CHECKPOINT, metavar="PT")
    parser.add_argument("--every", type=int, default=25_000, metavar="N", help="measure and save")
    parser.add_argument("--rate", type=float, default=TrainSettings.learning_rate)
    parser.add_argument("--draft-vocab", type=int, default=TrainSettings.draft_vocab_size)
    parser.add_argument("--batch", type=int, default=TrainSettings.batch_size, help="texts")
    parser.add_argument("--seed", type=int, default=0)
    _add_common(parser)
    parser.set_defaults(run=_eagle3)


def _eagle3(options: argparse.Namespace) -> None:
    """Train, measuring and saving every so many tokens; goes on where the checkpoint stopped."""
    torch.set_num_threads(options.threads)
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    train, held_out = load_split(options.data, tokenizer)
    settings = TrainSettings(
        options.tokens, options.draft_vocab, options.batch, options.rate, seed=options.seed
    )
    trainer = Eagle3Trainer(model, train, settings)
    progress = Progress(trainer, held_out)
    if options.checkpoint.exists():
        trainer.resume(options.checkpoint)
    else:
        table = bigram_table(train, model.config.vocab_size).to(model.device)
        trainer.notes = {
            "command": options.command,
            "data": options.data.name,
            "device": f"{model.device.type}, {probe().cpu}, {options.threads} threads",
            "bigram": progress.control(table),
        }
    while trainer.num_seen < options.tokens:
        losses = list(trainer.run(min(options.tokens, trainer.num_seen + options.every)))
        progress.measure(losses)
        trainer.save(options.checkpoint)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, default=_CHECKPOINT, metavar="PT")
    parser.add_argument("--data", type=Path, default=SELFGEN, metavar="NPZ", help="as in training")
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FOLDER")
    _add_common(parser)
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    train, _ = load_split(options.data, tokenizer)
    export_eagle3(load_trainer(options.checkpoint, model, train), options.out)
    print(f"{options.out}: written")


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", type=Path, default=SHIPPED, metavar="FOLDER")
    parser.add_argument("--data", type=Path, default=SELFGEN, metavar="NPZ", help="for the bigrams")
    parser.add_argument("--split", default="heldout", help=" | ".join(SPLITS))
    parser.add_argument("--limit", type=int, metavar="N", help="prompts of a kind, default all")
    parser.add_argument("--depth", type=int, default=4, help="draft tokens a round")
    parser.add_argument("--width", type=int, default=1, help="above 1 drafts trees")
    parser.add_argument("--max-new-tokens", type=int, default=48, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    _add_common(parser)
    parser.set_defaults(run=_eval)


def _eval(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    net = load_eagle3(options.weights, model)
    table = bigram_table(load_split(options.data, tokenizer)[0], model.config.vocab_size)
    drafters: dict[str, Callable[[SamplingParams], Proposer]] = {
        "bigram": lambda sampling: BigramProposer(table),
        "eagle3": lambda sampling: Eagle3Proposer(net, model.embedding, sampling, options.width),
    }
    prompts = [p for kind in KINDS for p in load_prompts(options.split, (kind,))[: options.limit]]
    sampling = SamplingParams(options.temperature, seed=options.seed)
    engine = Engine(model, tokenizer)
    for row in evaluate(engine, prompts, drafters, options.depth, options.max_new_tokens, sampling):
        print(row)


def load_split(path: Path, tokenizer: Tokenizer) -> tuple[list[Sample], list[Sample]]:
    """(train, held out) of a token file, without what resembles a prompt of `compare`."""
    return split_held_out(without_prompts(read_samples(path), tokenizer))


def without_prompts(samples: Sequence[Sample], tokenizer: Tokenizer) -> list[Sample]:
    """Samples that share no run of tokens with a prompt of `compare`, main or held out."""
    texts = [tokenizer.encode(p.text) for split in SPLITS for p in load_prompts(split)]
    kept = without_overlap(samples, texts)
    print(f"{len(samples)} texts, {len(samples) - len(kept)} left out: like a prompt of `compare`")
    return kept
