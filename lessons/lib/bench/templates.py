"""Held-out prompts for sweeps, which need more of them than anybody wants to write by hand.

Drawn from templates written for this course (Apache-2.0) with a fixed seed, so that everybody has
the same ones. No drafter may have been trained on them: `train` leaves out what resembles them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib.resources import files

_WORDS = json.loads(files("lessons.lib.bench").joinpath("template_words.json").read_text("utf-8"))
_NAMES, _TOWNS, _GOODS = _WORDS["names"], _WORDS["towns"], _WORDS["goods"]
_UNITS, _TOPICS = _WORDS["units"], _WORDS["topics"]
_FIELDS = {
    "id": lambda rng: str(rng.randrange(1000, 9999)),
    "owner": lambda rng: rng.choice(_NAMES),
    "town": lambda rng: rng.choice(_TOWNS),
    "item": lambda rng: rng.choice(_GOODS),
    "amount": lambda rng: str(rng.randrange(2, 90)),
    "weight_kg": lambda rng: f"{rng.uniform(1, 40):.1f}",
    "is_paid": lambda rng: rng.choice(["yes", "no"]),
    "due": lambda rng: f"2031-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
    "grade": lambda rng: rng.choice("ABCDE"),
}

Template = Callable[[random.Random], str]


def _maths_trip(rng: random.Random) -> str:
    name, (here, there) = rng.choice(_NAMES), rng.sample(_TOWNS, 2)
    out, back = rng.sample(range(40, 110, 5), 2)
    return (
        f"{name} drives from {here} to {there} at {out} km/h and returns at {back} km/h. The two "
        f"towns lie {rng.randrange(2, 9) * 30} km apart. How long is the whole trip in hours, and "
        "what was the average speed? Show how you get there."
    )


def _maths_stock(rng: random.Random) -> str:
    goods, price = rng.choice(_GOODS), rng.randrange(3, 40)
    return (
        f"A stall buys {rng.randrange(20, 200)} {goods} at ${price} each and sells three quarters "
        f"of them at ${price + rng.randrange(2, 15)}; the others go at half of what they cost. "
        "Compute the profit or the loss, one step a line."
    )


def _maths_tank(rng: random.Random) -> str:
    litres = rng.randrange(4, 30) * 60
    return (
        f"A tank of {litres} litres is filled by one pipe in {rng.randrange(2, 9)} hours and "
        f"emptied by another in {rng.randrange(10, 20)} hours. Both are opened while it is empty. "
        "When is the tank full? Explain each equation."
    )


def _maths_ages(rng: random.Random) -> str:
    older, younger = rng.sample(_NAMES, 2)
    gap, years = rng.randrange(3, 25), rng.randrange(2, 15)
    return (
        f"{older} is {gap} years older than {younger}. In {years} years their ages will sum to "
        f"{gap + 2 * (years + rng.randrange(5, 40))}. How old is each of them today? Set up the "
        "equations before you solve them."
    )


def _maths_odds(rng: random.Random) -> str:
    red, blue = rng.randrange(3, 12), rng.randrange(3, 12)
    return (
        f"An urn holds {red} red and {blue} blue marbles. {rng.choice(_NAMES)} takes two out "
        "without looking and without putting the first back. What is the chance that the colours "
        "differ? Give the exact fraction and say why."
    )


def _json_record(rng: random.Random) -> str:
    fields = rng.sample(list(_FIELDS), rng.randrange(4, 7))
    facts = "; ".join(f"{name.replace('_', ' ')} {_FIELDS[name](rng)}" for name in fields)
    return f"Turn this note into one JSON object with snake_case keys, nothing else: {facts}."


def _json_list(rng: random.Random) -> str:
    count = rng.randrange(3, 6)
    people = [
        f"{name} of {rng.choice(_TOWNS)} ordered {rng.randrange(2, 60)} {rng.choice(_GOODS)}"
        for name in rng.sample(_NAMES, count)
    ]
    return (
        f"Answer with a JSON array of {count} objects that have the keys customer, town, quantity "
        f"and product. {'. '.join(people)}."
    )


def _json_config(rng: random.Random) -> str:
    service = rng.choice(["mailer", "indexer", "gateway", "resizer", "scheduler"])
    return (
        f"Give the settings of a service named {service} as JSON: port {rng.randrange(2000, 9999)},"
        f" {rng.randrange(2, 32)} workers, a timeout of {rng.randrange(5, 90)} seconds, hosts in "
        f"{' and '.join(rng.sample(_TOWNS, 2))}, and a nested object for retries with "
        f"{rng.randrange(2, 9)} attempts and a backoff of {rng.uniform(0.1, 3):.1f}."
    )


def _json_schema(rng: random.Random) -> str:
    fields = ", ".join(rng.sample(list(_FIELDS), 4))
    return (
        f"Invent {rng.randrange(3, 6)} rows of {rng.choice(_GOODS)} kept in {rng.choice(_TOWNS)} "
        f"and print them as JSON under the key rows; every row has {fields}."
    )


def _code_lists(rng: random.Random) -> str:
    task = rng.choice(
        [
            f"splits a list into runs whose sums stay below {rng.randrange(20, 200)}",
            f"drops every element that occurs more than {rng.randrange(2, 6)} times",
            f"finds the longest stretch that rises by at most {rng.randrange(1, 9)} a step",
            f"interleaves {rng.choice(['two', 'three'])} iterables of unequal length",
            f"rotates the rows of a matrix by {rng.randrange(2, 7)} places",
        ]
    )
    return f"In Python, define a function `{rng.choice(_GOODS)}` that {task}. Add type hints."


def _code_class(rng: random.Random) -> str:
    thing = rng.choice(["Ledger", "Shelf", "Timetable", "Warehouse", "Voyage", "Orchard"])
    first, second = rng.sample(["add", "remove", "rename", "merge", "count_by", "total"], 2)
    return (
        f"Write a Python class {thing} that keeps {rng.choice(_GOODS)} by "
        f"{rng.choice(['town', 'owner'])}. It needs the methods {first} and {second}, "
        f"and raises ValueError for a quantity above {rng.randrange(50, 900)}."
    )


def _code_sql(rng: random.Random) -> str:
    return (
        f"Table orders has the columns customer, town, product, quantity, placed_on. Write SQL "
        f"that lists the {rng.randrange(3, 20)} customers of {rng.choice(_TOWNS)} with the most "
        f"{rng.choice(_GOODS)} since 20{rng.randrange(10, 30)}, ties by name."
    )


def _code_review(rng: random.Random) -> str:
    name, bound = rng.choice(_GOODS), rng.randrange(3, 40)
    return (
        f"This function should return the first {bound} even squares, but does not. Correct it.\n\n"
        f"def {name}(limit):\n    found = []\n    for number in range(limit):\n"
        f"        if number * number % 2:\n            found.append(number)\n"
        f"    return found[:{bound - 1}]"
    )


def _code_tests(rng: random.Random) -> str:
    return (
        f"Write {rng.randrange(3, 6)} pytest cases for a function `price(quantity, town)` that "
        f"adds {rng.randrange(2, 25)} percent tax outside {rng.choice(_TOWNS)} and rejects "
        f"quantities below {rng.randrange(1, 9)}."
    )


def _report(rng: random.Random) -> list[str]:
    """Sentences of a made-up shipping report, about a hundred words in all."""
    return [
        f"On day {day} {rng.choice(_NAMES)} sent {rng.randrange(2, 99)} {rng.choice(_UNITS)} of "
        f"{rng.choice(_GOODS)} from {here} to {there} for {rng.randrange(20, 900)} crowns."
        for day, (here, there) in enumerate(
            (rng.sample(_TOWNS, 2) for _ in range(rng.randrange(7, 11))), start=1
        )
    ]


def _copy_all(rng: random.Random) -> str:
    lines, goods = _report(rng), rng.choice(_GOODS)
    return f"Write the report out again and change only {goods} to barrels.\n\n{' '.join(lines)}"


def _copy_some(rng: random.Random) -> str:
    lines = _report(rng)
    first = rng.randrange(1, len(lines) - 2)
    return (
        f"Quote what the report says of days {first} to {first + 2}, word for word.\n\n"
        f"{' '.join(lines)}"
    )


def _copy_table(rng: random.Random) -> str:
    return (
        "Make a table of the report with the columns day, sender, goods, from, to, price."
        f"\n\n{' '.join(_report(rng))}"
    )


def _copy_backwards(rng: random.Random) -> str:
    return (
        "Repeat the sentences of the report from the last one to the first.\n\n"
        f"{' '.join(_report(rng))}"
    )


def _chat_advice(rng: random.Random) -> str:
    return (
        f"My neighbour {rng.choice(_NAMES)} wants to try {rng.choice(_TOPICS)} and has "
        f"{rng.randrange(2, 20)} free hours a month. What would you say to "
        f"{rng.choice(['encourage', 'warn', 'prepare'])} them?"
    )


def _chat_letter(rng: random.Random) -> str:
    return (
        f"Write a {rng.choice(['warm', 'dry', 'funny', 'formal'])} letter from "
        f"{rng.choice(_NAMES)} in {rng.choice(_TOWNS)} to a cousin about {rng.choice(_TOPICS)}."
    )


def _chat_story(rng: random.Random) -> str:
    return (
        f"Begin a story in which {rng.choice(_NAMES)} loses {rng.randrange(2, 40)} "
        f"{rng.choice(_GOODS)} near {rng.choice(_TOWNS)} and nobody is surprised."
    )


def _chat_opinion(rng: random.Random) -> str:
    first, second = rng.sample(_TOPICS, 2)
    return f"Which is the better way to spend a year, {first} or {second}? Take a side and argue."


def _chat_interview(rng: random.Random) -> str:
    return (
        f"Think up {rng.randrange(3, 7)} questions for a radio talk with {rng.choice(_NAMES)}, who "
        f"wrote a book on {rng.choice(_TOPICS)}, and answer the hardest one yourself."
    )


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "maths": (_maths_trip, _maths_stock, _maths_tank, _maths_ages, _maths_odds),
    "json": (_json_record, _json_list, _json_config, _json_schema),
    "code": (_code_lists, _code_class, _code_sql, _code_review, _code_tests),
    "copy": (_copy_all, _copy_some, _copy_table, _copy_backwards),
    "chat": (_chat_advice, _chat_letter, _chat_story, _chat_opinion, _chat_interview),
}


def draw_prompts(kind: str, count: int) -> list[tuple[str, str]]:
    """(name, text) of `count` prompts of a kind, templates taking turns, all texts distinct."""
    found: dict[str, str] = {}
    templates, attempt = TEMPLATES[kind], 0
    while len(found) < count:
        template = templates[len(found) % len(templates)]
        text = template(random.Random(f"{kind} {attempt}"))  # the same on every Python
        found.setdefault(text, f"{template.__name__.strip('_').replace('_', '-')}-{attempt}")
        attempt += 1
    return [(name, text) for text, name in found.items()]
