"""`selfcheck`: every mutant is in the table, and the table says what is not as it should be."""

import json
from dataclasses import replace

import pytest
from grader_case import FIGURES

from autograder import selfcheck
from autograder.attacks import corpus
from autograder.attacks.race_attacks import race_attacks
from autograder.attacks.run import Row
from autograder.fill_ins import MUTANTS, FillIn
from autograder.selfcheck import NOT_RUN, as_line, fill_in_row, is_wrong, summary
from autograder.speed_decision import Decision

UNIT = "lesson08"

FINE = Row("code/x", "tries x", "0 points: fail", "0 points: fail", needs="bubblewrap")
GAINS = Row("code/y", "tries y", "0 points: fail", "2 points: pass", ["network: False became True"])
NOISY = Row("race/z", "tries z", "fail", "inconclusive", ["too noisy to tell"])
LEFT_OUT = selfcheck.not_run(next(attack for attack in corpus.load() if attack.needs))


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("wrong/cost_hard_coded", "rejected"),
        ("wrong/map_swapped", "rejected"),
        ("right/cost_walrus", "full marks"),
        ("right/map_with_paths", "full marks"),
    ],
)
def test_a_mutant_and_a_right_variant(name, got):
    kind, stem = name.split("/")
    row = fill_in_row(FillIn(UNIT, kind, MUTANTS / UNIT / kind / f"{stem}.py"))
    assert (row.id, row.got, row.is_ok) == (f"{UNIT} {name}", got, True) and row.what


@pytest.mark.parametrize(("kind", "got"), [("wrong", "full marks"), ("right", "rejected")])
def test_a_mutant_that_is_judged_wrongly_is_named(tmp_path, kind, got):
    """A right answer among the wrong ones, and the other way round."""
    source = {"wrong": "right/cost_horner", "right": "wrong/cost_hard_coded"}[kind]
    odd = tmp_path / "cost_odd.py"
    odd.write_text((MUTANTS / UNIT / f"{source}.py").read_text())
    row = fill_in_row(FillIn(UNIT, kind, odd))
    assert row.got == got and is_wrong(row) and "cost_odd" in as_line(row)


def test_lines_say_what_came_out_and_what_only_bubblewrap_stops():
    assert as_line(FINE).startswith("ok    * code/x") and "tries x" in as_line(FINE)
    assert as_line(GAINS).startswith("WRONG   code/y")
    assert "2 points: pass, not 0 points: fail" in as_line(GAINS)
    assert as_line(GAINS).endswith("network: False became True")
    assert as_line(LEFT_OUT).startswith("-     *") and NOT_RUN in as_line(LEFT_OUT)


def test_the_summary_counts_and_warns():
    text = summary([FINE, GAINS, LEFT_OUT, NOISY], "rlimits")
    assert "1 races decided nothing" in text
    assert "1 of 2 as expected" in text and "WRONG: code/y" in text
    assert "1 attacks were not run" in text and "apt-get install bubblewrap" in text
    assert "not run" not in summary([FINE], "root") and "bubblewrap" in summary([FINE], "root")


@pytest.mark.parametrize(
    ("rows", "status"), [([FINE, LEFT_OUT], 0), ([FINE, NOISY], 0), ([FINE, GAINS], 1)]
)
def test_the_command_prints_json_and_its_status_tells(monkeypatch, capsys, rows, status):
    monkeypatch.setattr(selfcheck, "chosen_rows", lambda has_bubblewrap, races: iter(rows))
    assert selfcheck.main(["--json"]) == status
    said = capsys.readouterr()
    table = json.loads(said.out)
    assert [row["ok"] for row in table["rows"]] == ([True, None] if status == 0 else [True, False])
    assert (
        table["isolation"].split("+")[0] in ("bubblewrap", "rlimits") and "as expected" in said.err
    )


def test_without_bubblewrap_what_it_stops_is_not_tried(monkeypatch):
    tried = []
    monkeypatch.setattr(selfcheck, "run_class", lambda attacks, folder: tried.extend(attacks) or ())
    monkeypatch.setattr(selfcheck, "units", list)
    rows = list(selfcheck.quick_rows(has_bubblewrap=False))
    attacks = corpus.load()
    assert len(rows) + len(tried) == len(attacks) and len(rows) > 10
    assert not any(attack.needs for attack in tried) and {row.got for row in rows} == {NOT_RUN}


def decided(verdict):
    return lambda attack, found, seed: Decision(verdict, "1.3 times as fast")


@pytest.mark.parametrize(
    ("verdict", "state"), [("fail", "ok"), ("pass", "WRONG"), ("inconclusive", "-")]
)
def test_the_attacks_on_the_race_are_tried(monkeypatch, verdict, state):
    monkeypatch.setattr(selfcheck.figures, "measured", lambda: replace(FIGURES, can_race=True))
    monkeypatch.setattr(selfcheck, "try_race", decided(verdict))
    rows = {row.id: row for row in selfcheck.chosen_rows(True, "only")}
    assert len(rows) == len(race_attacks())
    line = as_line(rows["race/accepts_without_the_test"])
    assert line.startswith(state) and ("1.3 times" in line) == (verdict != "fail")


def test_where_no_method_reaches_the_bar_there_is_no_race(monkeypatch):
    monkeypatch.setattr(selfcheck.figures, "measured", lambda: FIGURES)
    monkeypatch.setattr(selfcheck, "try_race", lambda *_: pytest.fail("it raced"))
    rows = list(selfcheck.race_rows())
    assert {row.got for row in rows} == {NOT_RUN} and not any(map(is_wrong, rows))


@pytest.mark.parametrize(("races", "parts"), [("yes", "QR"), ("no", "Q"), ("only", "R")])
def test_with_the_race_or_without(monkeypatch, races, parts):
    monkeypatch.setattr(selfcheck, "quick_rows", lambda has_bubblewrap: "Q")
    monkeypatch.setattr(selfcheck, "race_rows", lambda: "R")
    assert "".join(selfcheck.chosen_rows(True, races)) == parts


@pytest.mark.slow
@pytest.mark.sandbox
def test_this_machine(capsys):
    assert selfcheck.main(["--race", "no"]) == 0, capsys.readouterr().out
