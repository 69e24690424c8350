"""Lesson 7: is `verify_chain` the rule that leaves the target's law unchanged?

Asked are decisions (how many drafts stay for given coins) and laws (from which the next token is
drawn), never drawn tokens alone. So the law of the output is enumerated exactly; only the last part
of `law` draws, to catch what depends on the history of calls.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from lessons.lib.checks.asking import Question, Rejected, Submission, a_type, try_all
from lessons.lib.checks.law_worlds import World, random_law, random_world, same_law

CELL = "verify_chain"
VERIFY = "verify_chain"
LAST_COIN = 1.0 - 2.0**-53  # the largest number below 1
NUM_PAIRS, NUM_WORLDS, NUM_ROUNDS = 60, 5, 3000
CHI_SQUARE_LIMIT = 35.89  # 5 degrees of freedom, exceeded by chance once in a million

Law = list[float]
Answer = tuple[int, Law]


def verify(
    ask: Question, drafts: Sequence[int], draft: list[Law], target: list[Law], coins: Law
) -> Answer:
    """What `verify_chain` returned, checked against its contract. Raises Rejected."""
    value = ask.call(VERIFY, list(drafts), draft, target, list(coins)).value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Rejected(f"{VERIFY} returned {a_type(value)}, not a pair (num_accepted, next_probs)")
    num_accepted, law = value
    if isinstance(num_accepted, bool) or not isinstance(num_accepted, int):
        raise Rejected(f"{VERIFY} returned {a_type(num_accepted)} as num_accepted, not an int")
    if num_accepted not in range(len(drafts) + 1):
        raise Rejected(f"num_accepted is {num_accepted} for {len(drafts)} drafts")
    return num_accepted, as_law(law, len(target[0]))


def as_law(value: object, num_tokens: int) -> Law:
    """A returned law: so many numbers, none negative, sum 1. Raises Rejected."""
    if not isinstance(value, list | tuple):
        raise Rejected(f"next_probs is {a_type(value)}, not a list of {num_tokens} numbers")
    if len(value) != num_tokens:
        raise Rejected(f"next_probs holds {len(value)} numbers, expected {num_tokens}")
    if not all(isinstance(x, int | float) and math.isfinite(x) and x >= 0 for x in value):
        raise Rejected("next_probs holds something that is not a number of 0 or more")
    if not math.isclose(math.fsum(value), 1.0, rel_tol=1e-9):
        raise Rejected("next_probs does not sum to 1: renormalise the residual")
    return [float(x) for x in value]


# accept


# What a decision could go by instead, from the two probabilities of the draft and the coin.
Decision = Callable[[float, float, float], bool]
MISTAKEN_DECISIONS: tuple[tuple[Decision, str], ...] = (
    (lambda t, d, coin: True, "every draft is kept: the coin is never compared"),
    (lambda t, d, coin: False, "no draft is ever kept"),
    (lambda t, d, coin: t >= d, "a draft less likely under the target may stay too, by its coin"),
    (lambda t, d, coin: coin < t, "the chance to stay is a ratio, not the target's probability"),
    (lambda t, d, coin: coin < d, "the draft's own probability does not decide alone"),
    (lambda t, d, coin: coin * t < d, "the ratio is upside down: target over draft"),
    (lambda t, d, coin: coin * d >= t, "the coin is compared the wrong way round"),
    (lambda t, d, coin: coin * d > t, "the coin is compared the wrong way round"),
)


def check_accept(submission: Submission) -> str:
    """One draft, coins just below and just above the right chance to stay."""
    ask, seen = submission.ask(CELL), []
    for target, draft, token in pairs(submission.rng):
        chance = min(1.0, target[token] / draft[token])
        other = random_law(submission.rng, len(target))
        for coin, stays in coins_around(chance):
            num_accepted, _ = verify(ask, [token], [draft], [target, other], [coin])
            seen.append((target[token], draft[token], coin, num_accepted == 1, stays))
    wrong = [case for case in seen if case[3] != case[4]]
    if not wrong:
        return "a draft stays with probability min(1, target / draft)"
    for decide, sentence in MISTAKEN_DECISIONS:
        if all(decide(t, d, coin) == got for t, d, coin, got, _ in seen):
            raise Rejected(sentence)
    too_often = sum(got for *_, got, _ in wrong)
    raise Rejected("drafts stay too " + ("often" if 2 * too_often > len(wrong) else "rarely"))


def pairs(rng: random.Random) -> Iterator[tuple[Law, Law, int]]:
    """Two laws and a token that the draft can draw; some are certain, some leave tokens out."""
    for number in range(NUM_PAIRS):
        size = rng.randint(3, 8)
        target, draft = random_law(rng, size, number % 3), random_law(rng, size, number % 2)
        yield target, draft, rng.choices(range(size), draft)[0]
    yield [0.0, 1.0, 0.0], [0.25, 0.5, 0.25], 1
    yield [0.0, 1.0, 0.0], [0.25, 0.5, 0.25], 2


def coins_around(chance: float) -> list[tuple[float, bool]]:
    """(coin, does the draft stay): as near to the right chance as rounding allows."""
    below = [(chance * (1 - 1e-9), True)] if chance > 0 else []
    above = [(chance * (1 + 1e-9), False)] if chance < 1 - 1e-8 else []
    ends = [(0.0, chance > 0), (LAST_COIN, chance >= 1.0)]
    return [*below, *above, *ends]


# law


def check_law(submission: Submission) -> str:
    """The law from which the next token comes, then the law of all that is put out, exactly."""
    ask, rng = submission.ask(CELL), submission.rng
    for number in range(NUM_WORLDS):
        world = random_world(rng, num_tokens=3 + number % 2, depth=1 + number % 3)
        for drafts in world.all_drafts():
            for stays, num_right, coins in world.coins_by_outcome(drafts, rng):
                answer = verify(ask, drafts, world.draft(drafts), world.target(drafts), coins)
                compare(world, drafts, answer, num_right)
                world.add(drafts, answer, stays)
        if world.error() > 1e-9:
            raise Rejected("the law of the output is not the target's")
    _draw_and_count(ask, rng)
    return "the output has the target's law, enumerated exactly and drawn"


def compare(world: World, drafts: Sequence[int], answer: Answer, num_right: int) -> None:
    """One decision and its law against the right ones. Raises Rejected in words."""
    num_accepted, law = answer
    target, draft = world.target(drafts), world.draft(drafts)
    if num_accepted != num_right:
        after = "after a rejection nothing more may be kept; before it everything stays"
        raise Rejected(
            f"num_accepted is not the number of drafts before the first rejection: {after}"
        )
    row = target[num_accepted]
    if num_accepted == len(drafts):
        if not same_law(law, row):
            raise Rejected("when all drafts stay, the bonus token comes from the last target row")
        return
    if same_law(law, residual(row, draft[num_accepted])):
        return
    for wrong, sentence in mistaken_laws(target, draft, num_accepted):
        if same_law(law, wrong):
            raise Rejected(sentence)
    raise Rejected("after a rejection next_probs is not what the target has above the draft")


def residual(target: Law, draft: Law) -> Law:
    """max(0, target - draft), made to sum 1 (Leviathan et al. 2211.17192, section 2.3)."""
    return normalised([max(0.0, t - d) for t, d in zip(target, draft, strict=True)])


def normalised(weights: Law) -> Law:
    """The law in proportion to the weights, which are not all 0."""
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def mistaken_laws(target: list[Law], draft: list[Law], place: int) -> list[tuple[Law, str]]:
    """Laws that students return after a rejection, and what is wrong with each."""
    both = list(zip(target[place], draft[place], strict=True))
    found = [
        (target[place], "after a rejection the target's own law counts the draft's share twice"),
        (draft[place], "after a rejection the draft has no say: its law is not what is drawn from"),
        (target[-1], "after a rejection the bonus row must not be used: it follows the rejected"),
        (target[place + 1], "the row of the rejected position counts, not the one after it"),
        (normalised([abs(t - d) for t, d in both]), "the excess is max(0, …), not the absolute"),
    ]
    excess = [max(0.0, d - t) for t, d in both]
    if any(excess):
        found.append((normalised(excess), "the excess is the target's over the draft's"))
    return found


def _draw_and_count(ask: Question, rng: random.Random) -> None:
    """Real rounds: draw the drafts, the coins and the next token, and count the first token."""
    world = random_world(rng, num_tokens=6, depth=2)
    counts = [0] * 6
    for _ in range(NUM_ROUNDS):
        drafts = world.draw(rng)
        coins = [rng.random() for _ in drafts]
        num_accepted, law = verify(ask, drafts, world.draft(drafts), world.target(drafts), coins)
        counts[drafts[0] if num_accepted else rng.choices(range(6), law)[0]] += 1
    expected = [NUM_ROUNDS * share for share in world.target(())[0]]
    if sum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True)) > CHI_SQUARE_LIMIT:
        raise Rejected("over thousands of rounds the tokens do not follow the target's law")


# boundary


def check_boundary(submission: Submission) -> str:
    """Edges of the contract; one rejection names all that failed."""
    ask, rng = submission.ask(CELL), submission.rng
    parts = (_no_draft, _equal_laws, _greedy, _refuses, _changes_no_input, _has_no_memory)
    try_all(parts, ask, rng)
    return "no draft, equal laws, greedy rows and impossible input are handled"


def _no_draft(ask: Question, rng: random.Random) -> None:
    law = random_law(rng, 5)
    if not _is(verify(ask, [], [], [law], []), 0, law):
        raise Rejected("without a draft the answer is (0, the only target row)")


def _equal_laws(ask: Question, rng: random.Random) -> None:
    law, last = random_law(rng, 5), random_law(rng, 5)
    for token in range(5):
        if not _is(verify(ask, [token], [law], [law, last], [LAST_COIN]), 1, last):
            raise Rejected("where draft and target agree, every draft stays")


def _greedy(ask: Question, rng: random.Random) -> None:
    """Rows that are certain: what is drafted stays exactly while it is the target's token."""
    for _ in range(6):
        tokens = [rng.randrange(4) for _ in range(4)]
        drafts = [t if rng.random() < 0.6 else (t + 1) % 4 for t in tokens[:3]]
        target, draft = [_certain(t) for t in tokens], [_certain(t) for t in drafts]
        same = [draft == token for draft, token in zip(drafts, tokens, strict=False)]
        right = [*same, False].index(False)
        got = verify(ask, drafts, draft, target, [rng.random() for _ in drafts])
        if not _is(got, right, target[right]):
            raise Rejected("with certain laws (greedy) it does not follow the target's tokens")


def _refuses(ask: Question, rng: random.Random) -> None:
    laws = [random_law(rng, 4) for _ in range(3)]
    impossible = [0.5, 0.5, 0.0, 0.0]
    cases = {
        "a draft that its own law gives no chance": ([2], [impossible], laws[:2], [0.0]),
        "as many target rows as drafts": ([1], laws[:1], laws[:1], [0.5]),
        "a draft row too few": ([1, 2], laws[:1], laws, [0.5, 0.5]),
        "a coin too few": ([1, 2], laws[:2], laws, [0.5]),
    }
    for what, arguments in cases.items():
        ask.must_refuse(VERIFY, what, *arguments)


def _changes_no_input(ask: Question, rng: random.Random) -> None:
    """Through every outcome of every chain: where a call ends decides which lists it may touch."""
    world = random_world(rng, num_tokens=3, depth=2)
    for drafts in world.all_drafts():
        for _, _, coins in world.coins_by_outcome(drafts, rng):
            given = (list(drafts), world.draft(drafts), world.target(drafts), coins)
            if ask.call(VERIFY, *given).args != given:
                raise Rejected(f"{VERIFY} changes the lists that it is given")


def _has_no_memory(ask: Question, rng: random.Random) -> None:
    world = random_world(rng, num_tokens=4, depth=2)
    calls = []
    for _ in range(6):
        drafts = world.draw(rng)
        coins = [rng.random() for _ in drafts]
        calls.append((drafts, world.draft(drafts), world.target(drafts), coins))
    first = [verify(ask, *call) for call in calls]
    if [verify(ask, *call) for call in reversed(calls)] != first[::-1]:
        raise Rejected(f"{VERIFY} gives another answer to the same question after other calls")


def _certain(token: int) -> Law:
    return [float(token == other) for other in range(4)]


def _is(answer: Answer, num_accepted: int, law: Law) -> bool:
    return answer[0] == num_accepted and same_law(answer[1], law)


CHECKS: dict[str, Callable[[Submission], str]] = {
    "accept": check_accept,
    "law": check_law,
    "boundary": check_boundary,
}
