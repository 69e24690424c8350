"""Command line of training: `data`, `states`, a drafter's name, `export` and `eval`, in the order
of use."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import NoReturn

import torch
from tqdm import tqdm

from kernels.runtime import InputError, probe
from lessons.lib.bench.workload import KINDS, SPLITS, load_prompts
from lessons.lib.config import SamplingParams
from lessons.lib.draft.proposer import Proposer
from lessons.lib.draft.registry import make_proposer, ready_methods, shipped
from lessons.lib.engine import Engine
from lessons.lib.model.llama import LlamaModel
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
from lessons.lib.train.engine_card import write_cards
from lessons.lib.train.evaluate import evaluate
from lessons.lib.train.export import export, start_from
from lessons.lib.train.generate import generate
from lessons.lib.train.progress import Progress, measured_and_spare
from lessons.lib.train.recipe import Recipe
from lessons.lib.train.recipes import RECIPES, cached_layers, recipe_maker
from lessons.lib.train.target_cache import TargetCache
from lessons.lib.train.text import library_samples
from lessons.lib.train.trainer import Trainer, TrainSettings, mixed_precision, read_checkpoint

_BUILD = Path("build/train")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it worked, 2 when the user has to change something."""
    parser = _Parser(prog="python -m lessons.lib.train", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_data(commands.add_parser("data", help="gather texts in a token file"))
    _add_states(commands.add_parser("states", help="run the target over a token file beforehand"))
    for name, maker in RECIPES.items():
        _add_train(commands.add_parser(name, help=f"train {maker.title}; resumable"), maker)
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


def _add_texts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=SELFGEN, metavar="NPZ", help="token file")
    parser.add_argument(
        "--cache", type=Path, default=_BUILD, metavar="FOLDER", help="for the target's states"
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="NPZ")
    parser.add_argument("--from", type=Path, nargs="*", default=[SELFGEN], dest="sources")
    parser.add_argument("--library-tokens", type=int, default=0, metavar="N", help="natural text")
    parser.add_argument(
        "--generate", type=int, metavar="N", help="instead: the target answers N prompts; resumable"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the prompts and answers")
    _add_common(parser)
    parser.set_defaults(run=_data)


def _data(options: argparse.Namespace) -> None:
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    if options.generate:
        engine = Engine(model, tokenizer, max_running=32)
        samples = generate(engine, options.generate, options.seed, options.out)
    else:
        samples = library_samples(tokenizer, options.library_tokens)
        for source in options.sources:
            samples += read_samples(source)
        samples = without_prompts(samples, tokenizer)
        write_samples(samples, options.out)
    tokens: Counter[str] = Counter()
    for sample in samples:
        tokens[sample.kind] += sample.num_response
    print(f"{options.out}: {len(samples)} texts, response tokens {dict(tokens)}")


def _add_states(parser: argparse.ArgumentParser) -> None:
    _add_texts(parser)
    _add_common(parser)
    parser.set_defaults(run=_states)


def _states(options: argparse.Namespace) -> None:
    _, texts, _ = _open(options)
    print(f"{texts.folder}: {texts.num_bytes / 1e9:.1f} GB when full")
    texts.fill()


def _add_train(parser: argparse.ArgumentParser, maker: type[Recipe]) -> None:
    parser.add_argument("--tokens", type=int, default=500_000, metavar="N", help="to learn from")
    parser.add_argument("--checkpoint", type=Path, metavar="PT", help="build/train/NAME.pt")
    parser.add_argument("--every", type=int, default=100_000, metavar="N", help="measure and save")
    parser.add_argument("--from-weights", type=Path, metavar="FOLDER", help="start of a new run")
    parser.add_argument("--rate", type=float, default=TrainSettings.learning_rate)
    parser.add_argument("--batch", type=int, default=TrainSettings.batch_size, help="texts")
    parser.add_argument("--seed", type=int, default=0)
    for field in fields(maker.Settings):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    _add_texts(parser)
    _add_common(parser)
    parser.set_defaults(run=partial(_train, maker))


def _train(maker: type[Recipe], options: argparse.Namespace) -> None:
    """Train, measuring and saving every so many tokens; goes on where the checkpoint stopped."""
    model, texts, train = _open(options)
    settings = TrainSettings(options.tokens, options.batch, options.rate, seed=options.seed)
    own = maker.Settings(**{f.name: getattr(options, f.name) for f in fields(maker.Settings)})
    trainer = _trainer(maker, model, texts, train, own, settings)
    progress = Progress(trainer, _held_out(texts)[0])
    checkpoint = options.checkpoint or _BUILD / f"{maker.name}.pt"
    if checkpoint.exists():
        trainer.resume(checkpoint)
        trainer.notes["command"] = options.command
    else:
        _begin(trainer, progress, options)
    bar = tqdm(total=options.tokens, initial=trainer.num_seen, unit="tok", desc=maker.name)
    while trainer.num_seen < options.tokens:
        losses = []
        for loss in trainer.run(min(options.tokens, trainer.num_seen + options.every)):
            losses.append(loss)
            bar.update(trainer.num_seen - bar.n)
        progress.measure(losses)
        trainer.save(checkpoint)


def _begin(trainer: Trainer, progress: Progress, options: argparse.Namespace) -> None:
    """What the card will need to know, and the start from other weights."""
    texts = [trainer.texts.samples[index] for index in trainer.train]
    model = trainer.texts.model
    trainer.notes = {
        "drafter": trainer.recipe.name,
        "command": options.command,
        "data": options.data.name,
        "texts": len(texts),
        "tokens": sum(text.num_response for text in texts),
        "device": f"{model.device.type}, {probe().cpu}, {options.threads} threads",
        "bigram": progress.control(bigram_table(texts, model.config.vocab_size).to(model.device)),
    }
    if options.from_weights:
        start_from(trainer, options.from_weights)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=list(RECIPES))
    parser.add_argument("--checkpoint", type=Path, metavar="PT", help="build/train/NAME.pt")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the course's own by default")
    _add_texts(parser)
    _add_common(parser)
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    checkpoint = options.checkpoint or _BUILD / f"{options.name}.pt"
    state, maker = read_checkpoint(checkpoint), recipe_maker(options.name)
    if (found := state["recipe"].pop("drafter")) != options.name:
        raise InputError(f"{checkpoint}: of {found}, not {options.name}")
    model, texts, train = _open(options)
    settings = TrainSettings(**state["settings"])
    trainer = _trainer(maker, model, texts, train, maker.Settings(**state["recipe"]), settings)
    trainer.resume(checkpoint)
    spare = _held_out(texts)[1]
    groups = [spare[i : i + settings.batch_size] for i in range(0, len(spare), settings.batch_size)]
    with mixed_precision(model):
        trainer.recipe.finish([texts.batch(group) for group in groups])
    out = options.out or shipped(options.name)
    export(trainer, out)
    print(f"{out}: written")


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="METHOD", help="default: all that are ready")
    parser.add_argument("--weights", type=Path, metavar="PATH", help="of the one method named")
    parser.add_argument("--data", type=Path, default=SELFGEN, metavar="NPZ", help="for the bigrams")
    parser.add_argument("--split", default="heldout", help=" | ".join(SPLITS))
    parser.add_argument("--limit", type=int, metavar="N", help="prompts of a kind, default all")
    parser.add_argument("--depth", type=int, default=4, help="draft tokens a round")
    parser.add_argument("--max-new-tokens", type=int, default=48, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cards", action="store_true", help="write the figures into the cards")
    _add_common(parser)
    parser.set_defaults(run=_eval)


def _eval(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    if options.weights and len(options.names) != 1:
        raise InputError(f"{options.weights}: name the one method that these weights are of")
    if options.weights and options.cards:
        raise InputError(f"{options.weights}: only weights that are shipped have a card here")
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    samples = without_prompts(read_samples(options.data), tokenizer)
    train = [samples[index] for index in split_held_out(len(samples))[0]]
    table = bigram_table(train, model.config.vocab_size)
    drafters: dict[str, Callable[[SamplingParams], Proposer | None]] = {
        "bigram": lambda sampling: BigramProposer(table)
    }
    for name in options.names or ready_methods()[1:]:  # without target-only
        drafters[name] = partial(
            make_proposer, name, model, weights=options.weights, tokenizer=tokenizer
        )
        drafters[name](SamplingParams())  # what is missing should be said before the first run
    prompts = [p for kind in KINDS for p in load_prompts(options.split, (kind,))[: options.limit]]
    sampling = SamplingParams(options.temperature, seed=options.seed)
    engine = Engine(model, tokenizer)
    rows = evaluate(engine, prompts, drafters, options.depth, options.max_new_tokens, sampling)
    for row in rows:
        print(row)
    if options.cards:
        write_cards(rows, vars(options) | {"num_prompts": len(prompts)})


def _open(options: argparse.Namespace) -> tuple[LlamaModel, TargetCache, list[int]]:
    """The target, its view of the token file's texts, and which of them to train on."""
    torch.set_num_threads(options.threads)
    model, tokenizer = load_model(options.model, options.dtype, options.device)
    samples = without_prompts(read_samples(options.data), tokenizer)
    layers = cached_layers(model.config.num_layers)
    texts = TargetCache(model, samples, layers, options.cache)
    return model, texts, split_held_out(len(samples))[0]


def _held_out(texts: TargetCache) -> tuple[list[int], list[int]]:
    return measured_and_spare(texts, split_held_out(len(texts.samples))[1])


def _trainer(
    maker: type[Recipe],
    model: LlamaModel,
    texts: TargetCache,
    train: Sequence[int],
    own: object,
    settings: TrainSettings,
) -> Trainer:
    torch.manual_seed(settings.seed)  # for the weights that start at random
    recipe = maker(model, own, [texts.samples[index] for index in train])
    return Trainer(recipe, texts, train, settings)


def without_prompts(samples: Sequence[Sample], tokenizer: Tokenizer) -> list[Sample]:
    """Samples that share no run of tokens with a prompt of `compare`, main or held out."""
    texts = [tokenizer.encode(p.text) for split in SPLITS for p in load_prompts(split)]
    kept = without_overlap(samples, texts)
    print(f"{len(samples)} texts, {len(samples) - len(kept)} left out: like a prompt of `compare`")
    return kept
