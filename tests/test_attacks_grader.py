"""No attack gains, harms or leaves anything, and who is graded next has full marks."""

import socket
import sqlite3
import subprocess
import sys

import pytest

from autograder.attacks import arena, corpus, run
from autograder.sandbox.session import find_isolation

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
]
ATTACKS = corpus.load()
QUICK = [attack for attack in ATTACKS if not attack.is_slow]


def told(rows):
    return "\n".join(f"{r.id}: {r.expected} -> {r.got} {r.problems}" for r in rows)


def test_the_corpus_on_our_grader(tmp_path):
    assert find_isolation() != "rlimits"
    rows = list(run.run_class(QUICK, tmp_path))
    assert len(rows) == len(QUICK) + len(corpus.FOLDERS)
    bad = [row for row in rows if not row.is_ok]
    assert not bad, told(bad)


@pytest.mark.slow
def test_the_whole_corpus_with_feedback(tmp_path):
    bad = [row for row in run.run_class(ATTACKS, tmp_path, has_feedback=True) if not row.is_ok]
    assert not bad, told(bad)


@pytest.fixture
def room(tmp_path):
    found = arena.Arena(tmp_path)
    yield found
    found.close()


def test_the_arena_notices_what_it_watches(room):
    """A harmless attack after which each kind of damage is done by hand: all of it is named."""
    (attack,) = (attack for attack in ATTACKS if attack.id == "code/answers_zero")
    with arena.short_judging():
        room.grade_victim()
        room.hand_in("someone", attack)
        before = room.surroundings("someone")
        assert run.changes(before, room.surroundings("someone")) == []
        left = damage(room)
        found = run.changes(before, room.surroundings("someone"))
        left.kill()
        left.wait()
    assert [line.split(":")[0] for line in found] == list(before)
    assert "('aaa-victim', 'main')" in found[0] and "submitted/someone" in found[1]


def damage(room):
    """Everything that an attack might do; returns the process that it leaves."""
    with sqlite3.connect(room.room.path / "gradebook.db") as database:
        database.execute("UPDATE grade SET auto_score = 0.5")
    (room.room.path / "submitted/someone/lesson08/lesson08.ipynb").write_text("other")
    (room.temporary / "left").write_text("x")
    socket.create_connection(("127.0.0.1", room.port)).close()
    code = f"import time; time.sleep(60)  # {room.canary}"
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("got", "problems", "is_ok"),
    [
        ("0 points: fail invalid", [], True),
        ("0 points: fail fail", [], True),
        ("0 points: fail pass", [], False),
        ("1 points: fail invalid", [], False),
        ("0 points: fail", [], False),
        ("0 points: fail fail", ["network: False became True"], False),
    ],
)
def test_a_row_is_fine_only_when_everything_fits(got, problems, is_ok):
    assert run.Row("x", "what", "0 points: fail fail|invalid", got, problems).is_ok is is_ok
