"""Named workloads: which kinds of prompts, how long, how warm, all distinct and drawn from a seed.

Acceptance depends on what is asked, so a single kind flatters or slanders a method. Random tokens
are no workload at all: a model that is fed noise repeats itself and drafts of it are too good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import log

import numpy as np

from kernels.runtime import InputError
from lessons.lib.bench.workload import Prompt

LONG_CONTEXT = "copy"  # the kind whose prompts carry a passage


@dataclass(frozen=True)
class Lengths:
    """A log-normal law of counts: half of them below `median`, none outside `least` to `most`.

    spread: standard deviation of the logarithm; 0.7 puts the 90th percentile at 2.5 medians.
    """

    median: int
    spread: float
    least: int
    most: int

    def __post_init__(self) -> None:
        if not (0 < self.least <= self.median <= self.most and self.spread >= 0):
            raise InputError(f"lengths: need 0 < least <= median <= most, got {self}")

    def draw(self, rng: np.random.Generator) -> int:
        """One count."""
        drawn = round(rng.lognormal(log(self.median), self.spread))
        return min(max(drawn, self.least), self.most)


@dataclass(frozen=True)
class Part:
    """One kind in a recipe. output: most tokens to generate. context: words of the passages put
    before the question, only for LONG_CONTEXT; None leaves the prompt as it is."""

    kind: str
    share: float
    temperature: float
    output: Lengths
    context: Lengths | None = None

    def __post_init__(self) -> None:
        if self.context and self.kind != LONG_CONTEXT:
            raise InputError(f"only {LONG_CONTEXT!r} prompts take a context, not {self.kind!r}")


@dataclass(frozen=True)
class Recipe:
    """A mixture; the shares sum to one."""

    name: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if abs(sum(part.share for part in self.parts) - 1) > 1e-9:
            raise InputError(f"recipe {self.name}: its shares do not sum to 1")


@dataclass(frozen=True)
class Request:
    """One request as a server gets it; `seed` draws its tokens where temperature is above 0."""

    request_id: str
    kind: str
    prompt: str
    max_new_tokens: int
    temperature: float
    seed: int


_SHORT, _MEDIUM, _LONG = (
    Lengths(32, 0.4, 8, 96),
    Lengths(64, 0.5, 16, 192),
    Lengths(96, 0.6, 24, 320),
)
_CONTEXT = Lengths(400, 0.5, 150, 1200)


def _recipe(name: str, maths: float, copy: float, json: float, code: float, chat: float) -> Recipe:
    parts = (
        Part("maths", maths, 0.0, _LONG),
        Part("copy", copy, 0.0, _SHORT, _CONTEXT),
        Part("json", json, 0.0, _SHORT),
        Part("code", code, 0.0, _MEDIUM),
        Part("chat", chat, 0.8, _MEDIUM),
    )
    return Recipe(name, tuple(part for part in parts if part.share))


_BRIEF = Lengths(24, 0.4, 8, 48)
# The mixture of "balanced" with short contexts and answers, for machines without a card.
_COURSE = Recipe(
    "course",
    (
        Part("maths", 0.2, 0.0, _BRIEF),
        Part("copy", 0.2, 0.0, _BRIEF, Lengths(200, 0.4, 100, 500)),
        Part("json", 0.2, 0.0, _BRIEF),
        Part("code", 0.2, 0.0, _BRIEF),
        Part("chat", 0.2, 0.8, _BRIEF),
    ),
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        _recipe("balanced", maths=0.2, copy=0.2, json=0.2, code=0.2, chat=0.2),
        _recipe("assistant", maths=0.1, copy=0.1, json=0.1, code=0.2, chat=0.5),
        _recipe("agent", maths=0.0, copy=0.3, json=0.4, code=0.3, chat=0.0),
        _recipe("reasoning", maths=0.6, copy=0.0, json=0.1, code=0.3, chat=0.0),
        _COURSE,
    )
}


def recipe_of(prompts: Sequence[Prompt]) -> Recipe:
    """The mixture that a file of prompts is, kind by kind; chat is sampled, the rest greedy."""
    kinds = [prompt.kind for prompt in prompts]
    parts = (
        Part(kind, kinds.count(kind) / len(kinds), 0.8 if kind == "chat" else 0.0, _MEDIUM)
        for kind in dict.fromkeys(kinds)
    )
    return Recipe("as in the files", tuple(parts))


def find_recipe(name: str) -> Recipe:
    """InputError for an unknown name, and for "random", which is refused for good."""
    if name == "random":
        raise InputError("random tokens inflate acceptance; choose a recipe of real prompts")
    if name not in RECIPES:
        raise InputError(f"unknown recipe {name!r}; choose one of {', '.join(RECIPES)}")
    return RECIPES[name]


def draw_requests(
    recipe: Recipe, prompts: Sequence[Prompt], num_requests: int, seed: int
) -> list[Request]:
    """The requests of one run, in the order of arrival. No two have the same prompt.

    Shares are met to within one request whatever the seed; the seed draws order, prompts, lengths.
    InputError when there are fewer distinct prompts of a kind than the recipe needs.
    """
    rng = np.random.default_rng(seed)
    parts = [
        part
        for part, amount in zip(recipe.parts, quotas(recipe, num_requests), strict=True)
        for _ in range(amount)
    ]
    texts = {
        part.kind: iter(_texts(part, prompts, parts.count(part), rng)) for part in recipe.parts
    }
    requests = []
    for place, index in enumerate(rng.permutation(len(parts))):
        part = parts[index]
        text, output = next(texts[part.kind]), part.output.draw(rng)
        identity = f"{seed}-{place:04d}"
        token_seed = int(rng.integers(2**62))
        requests.append(Request(identity, part.kind, text, output, part.temperature, token_seed))
    return requests


def quotas(recipe: Recipe, num_requests: int) -> list[int]:
    """How many requests each part gets: rounded down, the rest to the largest remainders."""
    wanted = [part.share * num_requests for part in recipe.parts]
    amounts = [int(want + 1e-9) for want in wanted]
    by_rest = sorted(range(len(wanted)), key=lambda i: amounts[i] - wanted[i])
    for index in by_rest[: num_requests - sum(amounts)]:
        amounts[index] += 1
    return amounts


def _texts(
    part: Part, prompts: Sequence[Prompt], amount: int, rng: np.random.Generator
) -> list[str]:
    """`amount` distinct prompts of one kind."""
    texts = list(dict.fromkeys(prompt.text for prompt in prompts if prompt.kind == part.kind))
    if part.context:
        texts = _with_context(texts, part.context, amount, rng)
    if len(texts) < amount:
        raise InputError(
            f"{amount} {part.kind!r} requests need as many distinct prompts, there are "
            f"{len(texts)}; ask for fewer requests or give a file with more prompts"
        )
    return [texts[index] for index in rng.permutation(len(texts))[:amount]]


def _with_context(
    texts: Sequence[str], words: Lengths, amount: int, rng: np.random.Generator
) -> list[str]:
    """Each question behind a pile of passages, one of which it is about.

    texts are "question, blank line, passage"; those without a passage are left out. A draw that
    came before is drawn again, a few times over, so fewer than `amount` may come back.
    """
    pairs = [text.split("\n\n", 1) for text in texts if "\n\n" in text]
    found: dict[str, None] = {}
    for attempt in range(4 * amount if pairs else 0):
        if len(found) == amount:
            break
        question, passage = pairs[attempt % len(pairs)]
        others = [other for _, other in pairs if other != passage]
        pile, target = [passage], words.draw(rng)
        for index in rng.permutation(len(others)):
            if sum(len(text.split()) for text in pile) >= target:
                break
            pile.append(others[index])
        order = rng.permutation(len(pile))
        numbered = [f"Passage {n}:\n{pile[i]}" for n, i in enumerate(order, start=1)]
        number = int(np.flatnonzero(order == 0)[0]) + 1
        task = f"Use passage {number} only. {question}"
        found["\n\n".join(chain(numbered, [task]))] = None
    return list(found)


def fingerprint(requests: Sequence[Request]) -> str:
    """Equal for two runs exactly when they sent the same requests in the same order."""
    text = json.dumps([asdict(request) for request in requests], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
