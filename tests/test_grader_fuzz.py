"""Whatever was done to a notebook or its file: a verdict or a clear word, never a traceback."""

import copy
import json
from dataclasses import asdict

import pytest
from grader_case import FIGURES, UNIT, cleaned, release, submission
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder import classroom, submissions
from autograder.checks import figures
from autograder.handed_in import Unreadable
from autograder.intake import clean
from autograder.parallel import Task, judge_task
from autograder.verdict import Judgement

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
PARTS = ("id", "cell_type", "source", "metadata", "outputs", "execution_count")
KINDS = st.sampled_from(["code", "markdown", "raw", "heading", None])
TAGS = st.lists(st.sampled_from(["skip-execution", "hide", "x" * 5000, 7]), max_size=3)
HUGE = [{"output_type": "stream", "name": "stdout", "text": ["x" * 1000 + "\n"] * 3000}]
ACTS = ["delete", "double", "move", "replace", "part", "grading", "retag", "retype", "cut", "huge"]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "gb18030"]
patient = settings(deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def damaged(draw):
    """A submission after a few random acts of violence."""
    cells = json.loads(json.dumps(submission()))["cells"]
    for _ in range(draw(st.integers(1, 8))):
        act = draw(st.sampled_from(ACTS))
        place = draw(st.integers(0, max(len(cells) - 1, 0)))
        if not cells or act == "replace":
            cells.insert(place, draw(JSON))
        elif act == "delete":
            del cells[place]
        elif act == "double":
            cells.append(copy.deepcopy(cells[place]))
        elif act == "move":
            cells.append(cells.pop(place))
        elif isinstance(cells[place], dict):
            damage_cell(draw, cells[place], act)
    return {"cells": cells, "metadata": draw(JSON), "nbformat": draw(JSON)}


def damage_cell(draw, cell, act):
    if act == "part":
        cell[draw(st.sampled_from(PARTS))] = draw(JSON)
    elif act == "grading":
        cell["metadata"] = {"nbgrader": draw(JSON | st.just({"grade_id": "main"}))}
    elif act == "retag":
        cell["metadata"] = {**as_dict(cell.get("metadata")), "tags": draw(TAGS)}
    elif act == "retype":
        cell["cell_type"] = draw(KINDS)
    elif act == "huge":
        cell["outputs"] = HUGE
    elif isinstance(cell.get("source"), str):  # cut
        cell["source"] = cell["source"][: draw(st.integers(0, len(cell["source"])))]


def as_dict(value):
    return value if isinstance(value, dict) else {}


@st.composite
def files(draw):
    """The bytes handed in: sometimes cut off, sometimes in an encoding of another age."""
    text = json.dumps(draw(damaged()), ensure_ascii=draw(st.booleans()))
    data = text.encode(draw(st.sampled_from(ENCODINGS)), "replace")
    if draw(st.integers(0, 4)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data


@settings(patient, max_examples=60)
@given(damaged())
def test_no_structure_breaks_intake(notebook):
    result, messages = cleaned(notebook)
    assert all(message and "\n" not in message for message in messages)
    json.dumps(result).encode("utf-8")


@settings(patient, max_examples=60)
@given(files())
def test_no_file_breaks_intake(data):
    try:
        result, messages = clean(data, release())
    except Unreadable as refused:
        assert "\n" not in str(refused) and len(str(refused)) > 20
    else:
        assert [c.get("id") for c in result.cells if "nbgrader" in c.metadata]
        assert all(message and "\n" not in message for message in messages)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(patient, max_examples=500)
@given(files())
def test_every_file_gets_a_verdict_on_each_check(data):
    """Five hundred, each judged as a class is judged."""
    try:
        found = Judgement.from_json(judge_task(Task("ann", data, UNIT, 7, asdict(FIGURES))))
    except Unreadable:
        return
    graded = [c.metadata.nbgrader.grade_id for c in release().cells if c.metadata.nbgrader.grade]
    assert sorted(check.id for check in found.checks) == sorted(graded)
    assert all(check.reason for check in found.checks) and 0 <= found.total <= found.max
    json.dumps(found.to_json())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@settings(patient, max_examples=3)
@given(st.lists(files(), min_size=10, max_size=10))
def test_a_class_of_damaged_files_is_graded_to_the_end(tmp_path_factory, handed_in):
    """Through nbgrader as well: everyone has a state, and nobody stops another."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "measured", lambda: FIGURES)
        room = classroom.create_classroom(folder / "class", "en")
        classroom.release(room, UNIT)
        for number, data in enumerate(handed_in):
            path = room.notebook("submitted", UNIT, f"s{number}")
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
        statuses = submissions.autograde(room, UNIT)
    assert len(statuses) == len(handed_in)
    assert {status.state for status in statuses} <= {"graded", "unreadable"}, statuses
