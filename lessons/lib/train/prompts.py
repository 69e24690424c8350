"""Prompts of the five kinds for the target to answer, so that drafters learn from its own words.

Written for this course (Apache-2.0), other than the prompts of `compare`; what still resembles one
of those is left out when a token file is read. Paragraphs and names of functions come from the
docstrings of the Python standard library at hand (PSF licence).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from lessons.lib.bench.workload import KINDS
from lessons.lib.train.text import library_docs

_WORDS = {
    "name": "Aisha Boris Chiara Dae Emeka Fatima Goran Helena Ines Javier Kamala Leif Mariam Nils "
    "Oksana Pavel Rosa Samir Tove Umar Vera Wei Yara Zoltan",
    "things": "apples books bottles coins cups eggs flowers letters magnets marbles pencils photos "
    "plates screws seeds shirts stamps stickers tickets towels",
    "entity": "aeroplane album book city course doctor employee event film flight game hotel "
    "invoice laptop movie order patient planet recipe sensor ship song student ticket train user",
    "field": "id title price author country status score created_at language size tags rating "
    "weight email phone colour owner quantity width active category",
    "topic": "volcanoes bread sleep glaciers chess whales bridges coffee gravity opera wool maps "
    "tides beekeeping compilers satellites democracy soap violins forests inflation languages "
    "vaccines robots rivers marathons tea lightning libraries",
    "role": "teacher nurse carpenter pilot gardener programmer parent grandparent student cook",
    "tone": "friendly formal short enthusiastic polite funny",
    "structure": "list|dictionary|binary tree|string|matrix|linked list|queue|file|graph|set",
    "task": "reverse it|count its elements|find the largest element|remove duplicates|sort it|"
    "compare two of them|print it nicely|search in it|split it in two|copy it|filter the odd ones|"
    "check that it is valid|save it as JSON|merge two of them",
    "language": "Python Python Python JavaScript C Rust Go Java SQL Bash",
}
_LISTS = {key: words.split("|") if "|" in words else words.split() for key, words in _WORDS.items()}

# A slot is a key of _WORDS, "number", "price", or "doc"; digits behind it make it another draw.
_TEMPLATES = {
    "maths": (
        "{name} has {number} {things} and gives {number2} of them to {name2}. {name3} brings "
        "{number3} more. How many {things} are there now? Explain.",
        "A box holds {number} {things}. How many boxes does {name} need for {number2}{number3} of "
        "them?",
        "One of the {things} costs {price} dollars. What do {number} cost with a discount of "
        "{number2} percent?",
        "Solve for x: {number}x + {number2} = {number3}{number4}.",
        "What is {number} times {number2}, plus {number3}? Show the steps.",
        "{name} walks {number} km at {number2} km per hour. How many minutes does it take?",
        "A rectangle is {number} cm wide and {number2} cm high. Calculate its area and perimeter.",
        "The numbers {number}, {number2}, {number3} and {number4} are given. What is their mean?",
    ),
    "json": (
        "Write a JSON object for one {entity} with the keys {field}, {field2}, {field3} and "
        "{field4}.",
        "Return only JSON: a list of {digit} objects, each an {entity} with {field} and {field2}.",
        "Create a JSON schema for a {entity} that has {field}, {field2} and {field3}.",
        "{name} bought {number} {things} for {price} dollars on 2024-0{digit}-1{digit2}. Write "
        "this as JSON.",
        "Convert to JSON. {field}: {number}; {field2}: {name}; {field3}: {topic}; {field4}: "
        "{price}",
        "Show an example of a JSON response of a web service that returns a {entity} and its "
        "{things}. Include {field}, {field2} and {field3}.",
        "Write the settings of a {entity} application as nested JSON with {field} and {field2}.",
    ),
    "code": (
        "Write a {language} function that takes a {structure} and must {task}.",
        "Write a {language} class for a {entity} with the attributes {field}, {field2}, {field3}.",
        "How do I work with a {structure} in {language}? I want to {task}. Give an example.",
        "Write a function in Python for this description: {doc}",
        "Write a Python script that reads a file of {things} and must sum the {field} of each.",
        "Explain this and show how it is used in Python: {doc}",
        "Implement a {structure} in {language} with methods to {task} and to {task2}.",
        "Write a unit test in Python for a function that should, given a {structure}, {task}.",
    ),
    "copy": (
        "Repeat this text exactly:\n\n{paragraph}",
        "Correct the spelling in this text and change nothing else:\n\n{paragraph}",
        "Replace every comma by a semicolon:\n\n{paragraph}",
        "{paragraph}\n\nSummarise the text above in one sentence that quotes it.",
        "Here is a text:\n\n{paragraph}\n\nWrite it again and add a title.",
        "Copy this list and add {number} {things}:\n\n- {number2} {things2}\n- {number3} "
        "{things3}\n- {number4} {things4}\n- {number5} {things5}",
        "{name} sold {number} {things} to {name2} for {price} dollars. {name3} saw it and bought "
        "{number2} {things2}.\n\nTell this again with {name4} instead of {name}.",
    ),
    "chat": (
        "Explain {topic} to a {role}.",
        "What is the connection between {topic} and {topic2}?",
        "Write a {tone} email from {name} to {name2} about {topic}.",
        "Give me {digit} tips about {topic} for a {role}.",
        "Tell me a short story about a {role} and {topic}.",
        "Why do people like {topic}? Answer in a {tone} way.",
        "I am a {role} and know nothing of {topic}. Where should I begin?",
        "Write a poem about {topic} and {things}.",
        "What are the advantages and disadvantages of {topic}?",
    ),
}


class _Draw(dict[str, str]):
    """A slot's word, drawn when it is first asked for and the same from then on."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def __missing__(self, slot: str) -> str:
        rng, key = self._rng, slot.rstrip("0123456789")
        if key == "number":
            word = str(rng.randrange(2, 100))
        elif key == "digit":
            word = str(rng.randrange(2, 9))
        elif key == "price":
            word = f"{rng.uniform(1, 90):.2f}"
        elif key in ("doc", "paragraph"):
            word = rng.choice(_docs()[key == "paragraph"])
        else:
            used = set(self.values())
            word = rng.choice([word for word in _LISTS[key] if word not in used])
        self[slot] = word
        return word


def draw_prompt(seed: int, index: int) -> tuple[str, str]:
    """(kind, text) of prompt `index`; kinds take turns. The same on every Python that has the same
    standard library."""
    rng = random.Random(f"{seed} {index}")
    kind = KINDS[index % len(KINDS)]
    return kind, rng.choice(_TEMPLATES[kind]).format_map(_Draw(rng))


@cache
def _docs() -> tuple[Sequence[str], Sequence[str]]:
    """First lines, and paragraphs of 30 to 90 words, of the library's docstrings."""
    lines, paragraphs = [], []
    for text in library_docs():
        parts = [" ".join(part.split()) for part in text.split("\n\n")]
        if 5 < len(parts[0].split()) < 30:
            lines.append(parts[0])
        paragraphs += [part for part in parts[1:] if 30 <= len(part.split()) <= 90]
    return sorted(set(lines)), sorted(set(paragraphs))
