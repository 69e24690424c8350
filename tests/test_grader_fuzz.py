"""Whatever was done to a notebook, intake rebuilds it and says so in single lines."""

import copy
import json

from grader_case import cleaned, submission
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
PARTS = ("id", "cell_type", "source", "metadata", "outputs", "execution_count")


@st.composite
def damaged(draw):
    """A submission after a few random acts of violence."""
    cells = json.loads(json.dumps(submission()))["cells"]
    for _ in range(draw(st.integers(1, 8))):
        act = draw(st.sampled_from(["delete", "double", "move", "replace", "part", "grading"]))
        place = draw(st.integers(0, max(len(cells) - 1, 0)))
        if not cells or act == "replace":
            cells.insert(place, draw(JSON))
        elif act == "delete":
            del cells[place]
        elif act == "double":
            cells.append(copy.deepcopy(cells[place]))
        elif act == "move":
            cells.append(cells.pop(place))
        elif isinstance(cells[place], dict) and act == "part":
            cells[place][draw(st.sampled_from(PARTS))] = draw(JSON)
        elif isinstance(cells[place], dict):
            cells[place]["metadata"] = {"nbgrader": draw(JSON | st.just({"grade_id": "main"}))}
    return {"cells": cells, "metadata": draw(JSON), "nbformat": draw(JSON)}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_no_structure_breaks_intake(notebook):
    result, messages = cleaned(notebook)
    assert all(message and "\n" not in message for message in messages)
    json.dumps(result).encode("utf-8")
