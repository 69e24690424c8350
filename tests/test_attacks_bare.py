"""The corpus without bubblewrap: who is graded with whom, and what a killed grader counts as."""

import json
import sys
from dataclasses import asdict

import pytest

from autograder.attacks import bare, bare_table
from autograder.attacks.corpus import load
from autograder.attacks.run import Row
from autograder.sandbox.session import find_isolation

ATTACKS = {attack.id: attack for attack in load()}
SAFE, UNSAFE = ATTACKS["code/answers_zero"], ATTACKS["code/sets_every_mark"]
HARMFUL = ATTACKS["code/zeroes_the_others"]
HONEST = {"id": "honest after code/", "what": "", "expected": "3", "got": "3", "problems": []}


def line(attack, got="0 points: fail fail fail fail", ok=True):
    row = Row(attack.id, attack.what, got, got)
    return {"row": asdict(row), "ok": ok, "isolation": "rlimits"}


def honest(got="3"):
    return {"row": HONEST | {"got": got}, "ok": got == "3", "isolation": "rlimits"}


def test_only_what_the_limits_stop_and_friends_share_a_grader():
    found = list(bare.groups(list(ATTACKS.values())))
    assert sorted(a.id for group in found for a in group) == sorted(ATTACKS)
    assert found[0] and not any(attack.needs for attack in found[0])
    assert [a.id for a in found[1]] == ["code/passes_answers_on_1", "code/passes_answers_on_2"]
    assert all(len(group) == 1 and group[0].needs for group in found[2:])
    assert set(bare.NOT_TRIED) <= set(ATTACKS)


@pytest.mark.parametrize(
    ("said", "got", "problems", "ok"),
    [
        ([line(UNSAFE), honest()], "0 points: fail fail fail fail", [], True),
        ([line(UNSAFE, ok=False), honest()], "0 points: fail fail fail fail", [], False),
        ([line(UNSAFE), honest("0")], "0 points: fail fail fail fail", [bare.NEXT_HARMED], False),
        ([line(UNSAFE)], "0 points: fail fail fail fail", [bare.NEXT_HARMED], False),
        ([], "0 points: no verdict", [bare.KILLED, bare.NEXT_HARMED], False),
    ],
)
def test_what_became_of_an_attack(monkeypatch, said, got, problems, ok):
    monkeypatch.setattr(bare, "rows_said", lambda command, timeout_s: said)
    (row,) = bare.run_group([UNSAFE])
    assert (row["got"], row["problems"], row["ok"]) == (got, problems, ok)


def test_in_one_class_a_killed_grader_costs_only_those_it_did_not_judge(monkeypatch):
    other = ATTACKS["code/abs_is_zero"]
    monkeypatch.setattr(bare, "rows_said", lambda command, timeout_s: [line(SAFE)])
    rows = list(bare.run_group([SAFE, other]))
    assert [row["ok"] for row in rows] == [True, False]
    assert rows[1]["problems"] == [bare.KILLED]


def test_what_a_grader_said_before_it_was_ended_counts():
    whole = json.dumps({"row": {"id": "a"}})
    code = f"print('noise'); print({whole!r}); print({whole[:9]!r}, end='', flush=True); "
    code += "import time; time.sleep(60)"
    assert bare.rows_said([sys.executable, "-c", code], 3.0) == [{"row": {"id": "a"}}]
    assert bare.rows_said([sys.executable, "-c", "raise SystemExit(3)"], 60.0) == []


def test_the_ledger(monkeypatch, tmp_path):
    out = tmp_path / "bare.json"
    monkeypatch.setattr(bare, "find_isolation", lambda: "root")
    said = {SAFE.id: [line(SAFE)], UNSAFE.id: []}
    monkeypatch.setattr(bare, "rows_said", lambda command, timeout_s: said[command[-1]])
    assert bare.main(["--json", str(out), "--only", UNSAFE.id, SAFE.id]) == 0
    ledger = json.loads(out.read_text())
    assert ledger["isolation"] == "rlimits" and "stock_cell_timeout_s" not in ledger
    got = {row["id"]: row["ok"] for row in ledger["rows"]}
    assert got == {SAFE.id: True, UNSAFE.id: False}


def test_it_refuses_to_be_attacked_without_a_sandbox_and_for_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bare, "find_isolation", lambda: "rlimits")
    assert bare.main(["--json", str(tmp_path / "out")]) == 2
    assert "bubblewrap" in capsys.readouterr().out
    monkeypatch.setattr(bare, "find_isolation", lambda: "root")
    for arguments in ([], ["--json", "out", "--only", "no such attack"]):
        with pytest.raises(SystemExit):
            bare.main(arguments)


def test_the_committed_ledger_holds_the_corpus_and_the_limits_stop_what_they_must():
    rows = {row["id"]: row for row in bare_table.read()["rows"]}
    assert set(rows) == set(ATTACKS) - set(bare.NOT_TRIED)
    assert all(rows[name]["ok"] for name in rows if not ATTACKS[name].needs)


@pytest.mark.parametrize(("lang", "words"), [("en", "network reached"), ("zh", "连上了网络")])
def test_the_table_names_each_harm_once(lang, words):
    about = {"date": "2030-01-01", "python": "3", "system": "Linux", "isolation": "rlimits"}
    row = {"id": "code/x", "ok": False, "problems": [], "got": "3 points: pass"}
    harmed = {**row, "problems": ["network: False became True"] * 2}
    gained, fine = {**row, "id": "code/y"}, {**row, "ok": True}
    text = bare_table.parts({**about, "rows": [harmed, gained, fine]}, lang)["bare"]
    lines = text.splitlines()
    assert "2030-01-01" in lines[0] and "3" in lines[0] and "1" in lines[0]
    assert len(lines) == 6 and lines[4].count(words) == 1 and "3 points: pass" in lines[5]


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_grader_without_bubblewrap_in_a_sandbox_of_its_own():
    """The real thing on two attacks: one that limits stop, and one that finds the gradebook."""
    assert find_isolation() != "rlimits"
    (safe,), (unsafe,) = (list(bare.run_group([attack])) for attack in (SAFE, HARMFUL))
    assert safe["ok"] and safe["isolation"].startswith("rlimits")
    assert not unsafe["ok"] and unsafe["problems"]
