"""Every unit rejects its wrong fill-ins, accepts its right ones and stops its attacks."""

import pytest
from grader_case import FIGURES, LIMITS
from unit_kit import FORMED, UNITS

from autograder import fill_ins
from autograder.attacks.unit_attacks import try_attack, unit_attacks
from autograder.judge import slow_checks

ALL = [item for unit in UNITS for item in fill_ins.fill_ins(unit)]
ATTACKS = [attack for unit in UNITS for attack in unit_attacks(unit)]
every = pytest.mark.parametrize("item", ALL, ids=lambda item: f"{item.unit}-{item.name}")
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)


def outcomes(item, seeds, skip):
    judged = fill_ins.judged(item.unit, item.text, seeds, LIMITS, lambda: FIGURES, skip)
    for verdicts in judged:
        assert all(verdict.reason for verdict in verdicts)
        yield fill_ins.describe(verdicts), verdicts


@pytest.mark.parametrize("unit", UNITS)
def test_there_are_enough_and_each_says_what_it_is(unit):
    mine = fill_ins.fill_ins(unit)
    kinds = [item.kind for item in mine]
    assert kinds.count("wrong") >= 10 and kinds.count("right") >= 4
    assert all(item.text.startswith("# ") for item in mine)
    assert len({item.text for item in mine}) == len({item.what for item in mine}) == len(mine)


@pytest.mark.parametrize("unit", FORMED)
def test_there_are_two_attacks_of_its_own(unit):
    assert len(unit_attacks(unit)) >= 2


@every
def test_a_fill_in_is_judged_rightly(item):
    for got, verdicts in outcomes(item, (1, 2, 3), slow_checks(item.unit)):
        assert got == item.expected, verdicts


@pytest.mark.slow
@pytest.mark.timeout(3600)
@every
def test_a_fill_in_is_judged_rightly_over_many_seeds(item):
    for got, verdicts in outcomes(item, range(100, 150), slow_checks(item.unit)):
        assert got == item.expected, verdicts


@pytest.mark.slow
@every
def test_a_fill_in_is_judged_rightly_with_the_model(item):
    """The checks that run the model as well, once."""
    if not slow_checks(item.unit):
        pytest.skip(f"{item.unit} has none")
    for got, verdicts in outcomes(item, (7,), ()):
        assert got == item.expected, verdicts


@each_attack
def test_an_attack_gets_what_it_must(attack):
    assert not try_attack(attack, 1, LIMITS, lambda: FIGURES, slow_checks(attack.unit))


@pytest.mark.slow
@each_attack
def test_an_attack_gets_what_it_must_with_the_model(attack):
    assert not try_attack(attack, 2, LIMITS, lambda: FIGURES)
