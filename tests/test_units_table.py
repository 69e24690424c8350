"""The table of all units: counts, length and time, and a unit that does not hold is named."""

import json

import pytest

from autograder import selfcheck, unit_table
from autograder.fill_ins import FillIn, fill_ins

UNIT = "lesson07"


@pytest.fixture
def few(monkeypatch):
    """Two fill-ins of each kind instead of all."""
    mine = fill_ins(UNIT)
    chosen = [item for item in mine if item.kind == "wrong"][:2]
    chosen += [item for item in mine if item.kind == "right"][:2]
    monkeypatch.setattr(unit_table, "fill_ins", lambda unit: chosen)
    monkeypatch.setattr(unit_table, "unit_attacks", lambda unit: [])
    monkeypatch.setattr(selfcheck, "SEEDS", (1,))
    return chosen


def test_a_unit_that_holds(few, capsys):
    assert unit_table.main([UNIT]) == 0
    head, line = capsys.readouterr().out.splitlines()
    row = dict(zip(head.split(), line.replace("full marks", "full_marks").split(), strict=True))
    assert (row["unit"], row["wrong"], row["right"], row["points"]) == (UNIT, "2/2", "2/2", "4")
    assert row["solution"] == "full_marks" and row["cells_equal"] == row["holds"] == "True"
    assert 1500 <= int(row["words"]) <= 2500 <= int(row["han"])


def test_what_does_not_hold_is_named_and_the_status_tells(few, capsys):
    right = few[-1]
    few[0] = FillIn(UNIT, "wrong", right.path)
    assert unit_table.main([UNIT, "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["wrong"] == "1/2" and row["right"] == "2/2"
    assert row["problems"] == [f"{UNIT} wrong/{right.path.stem}: full marks"]
