"""The corpus itself: complete, readable, and honest about what an attack may earn."""

import re
from pathlib import Path

import pytest

from autograder.attacks import corpus
from autograder.attacks.corpus import EARNED_BY_PLAIN, CorpusError, load, read_attack, waiting
from autograder.attacks.race_attacks import race_attacks

ATTACKS = load()
RACE = race_attacks()
# Of stock nbgrader's table only these have no code of their own: what they do is an answer.
STOCK = [
    *("01", "02", "03", "04a", "04b", "04c", "04d", "05"),
    *("06a", "06b", "06c", "06d", "06e"),
    *("07a", "07b", "07c", "07d", "07e", "07g", "07h"),
    *("08", "09a", "09b", "09c", "09d", "09e", "09f", "09g", "09h", "10"),
    *("11a", "11b", "11c", "12a", "12b", "12c", "12d", "12e", "13a", "13b", "14", "15"),
    *("16a", "16b", "17", "18", "19", "20a", "20b", "21", "22"),
]
SOURCE = re.compile(r"own|(stock|timing|specdec) \w+")


def sources():
    found = [part for attack in [*ATTACKS, *RACE] for part in attack.source.split(", ")]
    return found + [row["source"] for row in waiting()["waiting"]]


def test_every_attack_of_the_tables_is_here_or_named_as_waiting():
    assert {f"stock {row}" for row in STOCK} <= set(sources())
    assert {f"timing {row}" for row in range(1, 31)} <= set(sources())
    assert {f"specdec {letter}" for letter in "abcdefg"} <= set(sources())
    assert sources().count("own") >= 10


def test_headers_are_whole_and_ids_unique():
    assert all(SOURCE.fullmatch(source) for source in sources())
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS) >= 100
    assert len({attack.what for attack in ATTACKS}) == len(ATTACKS)
    assert {row["needs"] for row in waiting()["waiting"]} == {"gpu"}


def test_the_race_has_the_seven_cheats_and_each_has_a_verdict():
    found = {part for attack in RACE for part in attack.source.split(", ")}
    assert {f"specdec {letter}" for letter in "abcdefg"} <= found
    assert len(RACE) >= 14 and {attack.expect for attack in RACE} == {"fail", "invalid", "pass"}
    assert len({attack.what for attack in RACE}) == len(RACE)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_nothing_may_earn_more_than_the_answer_it_carries(attack):
    assert attack.points <= EARNED_BY_PLAIN[attack.carries]
    assert "inconclusive" not in attack.expect and "not_measured" not in attack.expect


@pytest.mark.parametrize(
    "header",
    ['"""\nwhat: x\n"""', '"""\nwhat: x\nsource: own\ncolour: red\n"""', "x = 1", "x ="]
    + ['"""\nwhat: x\nsource: own\nexpect: fail\n"""', '"""\nwhat: x\nsource: own\nplace: up\n"""'],
)
def test_a_bad_header_names_its_file(tmp_path, header):
    path = tmp_path / "odd.py"
    path.write_text(header)
    with pytest.raises(CorpusError, match="odd.py"):
        read_attack(path)


def test_reading_the_corpus_runs_nothing():
    assert Path(corpus.__file__).parent == corpus.HERE
    assert all(isinstance(attack.text, str) for attack in ATTACKS)
