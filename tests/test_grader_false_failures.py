"""The command that looks for right answers that fail: it counts, it notices and it resumes."""

import json
import os

import pytest

from autograder import false_failures
from autograder.fill_ins import fill_ins
from autograder.kept import Kept

RIGHT = [item for item in fill_ins("lesson08") if item.kind == "right"]
(WRONG,) = (item for item in fill_ins("lesson08") if item.name == "wrong/cost_no_bonus")


def test_a_right_answer_passes_and_a_wrong_one_would_be_seen():
    assert false_failures.graded(RIGHT[0], 3, with_model=False) == "pass"
    assert false_failures.graded(WRONG, 3, with_model=False) == "fail"


@pytest.mark.parametrize(
    ("counts", "trusted"),
    [
        ({"pass": 100}, True),
        ({"pass": 98, "inconclusive": 2}, True),
        ({"pass": 97, "inconclusive": 2, "not_measured": 1}, False),
        ({"pass": 999, "fail": 1}, False),
        ({"pass": 999, "invalid": 1}, False),
        ({}, False),
    ],
)
def test_what_is_trusted(counts, trusted):
    assert false_failures.is_trusted(false_failures.summary({"a": counts})) is trusted


def test_a_stopped_run_goes_on_and_each_time_has_its_own_seed(tmp_path, monkeypatch):
    asked = []

    def fake(item, seed, with_model):
        asked.append(seed)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return "pass"

    monkeypatch.setattr(false_failures, "graded", fake)
    with pytest.raises(KeyboardInterrupt):
        false_failures.measure(RIGHT[:1], 5, False, Kept(tmp_path / "out"))
    found = false_failures.measure(RIGHT[:1], 5, False, Kept(tmp_path / "out"))
    assert list(found.values()) == [{"pass": 5}] and asked == [0, 1, 2, 2, 3, 4]


def test_the_ledger_says_under_what_load(tmp_path, monkeypatch):
    running = []
    monkeypatch.setattr(false_failures, "graded", lambda *_: running.append(children()) or "fail")
    out = tmp_path / "found.json"
    command = ["--json", str(out), "--times", "1", "--units", "lesson08", "--busy", "2"]
    assert false_failures.main(command) == 1
    ledger = json.loads(out.read_text())
    assert ledger["settings"]["busy"] == 2 and ledger["summary"]["false_failures"] == len(RIGHT)
    assert min(running) >= 2 and children() < min(running)


def children():
    return sum(
        len(open(f"/proc/self/task/{t}/children").read().split())
        for t in os.listdir("/proc/self/task")
    )


@pytest.mark.slow
@pytest.mark.sandbox
def test_right_answers_do_not_fail_while_every_core_is_busy(tmp_path):
    """Ten gradings of each; the ledger in course/results has a hundred."""
    assert false_failures.main(["--json", str(tmp_path / "out.json"), "--times", "10"]) == 0
