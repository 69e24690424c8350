"""What crosses the border of the sandbox: plain data, and nothing that could harm the grader."""

import math

import pytest
from grader_case import ISOLATIONS, run, started

from autograder.sandbox import wire
from autograder.sandbox.launcher import Limits
from autograder.sandbox.link import read_reply
from lessons.lib.checks.outcome import Outcome

both = pytest.mark.parametrize("isolation", ISOLATIONS)


@both
def test_plain_values_cross_unchanged(isolation):
    values = [None, True, 3, -0.1, "text", [1, [2.5]], (1, ("a",)), {"k": [1], 2: None}, 10**40]
    with started("def same(*values): return values", isolation) as box:
        outcome = box.call("same", *values)
        assert outcome.value == tuple(values)
        assert [type(v) for v in outcome.value] == [type(v) for v in values]
        odd = box.call("same", math.nan, math.inf, -math.inf).value
    assert math.isnan(odd[0]) and odd[1:] == (math.inf, -math.inf)


@both
def test_numpy_values_become_plain(isolation):
    source = """
import numpy as np
def f(): return np.float32(2.5), np.int64(3), np.bool_(True), np.arange(3), np.str_("x")
"""
    assert run(source, isolation).value == (2.5, 3, True, [0, 1, 2], "x")


def test_torch_scalars_become_plain():
    source = "import torch\ndef f(): return torch.tensor(2.5), torch.ones(2, dtype=torch.int64)"
    assert run(source, "rlimits", Limits(cell_s=120.0)).value == (2.5, [1, 1])


def test_a_value_that_lies_is_judged_by_what_it_holds():
    source = """
class Liar(float):
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = float.__hash__
    def __float__(self): return 2.64
    def __repr__(self): return "2.64"
class Fake:
    @property
    def __class__(self): return float
def f(): return Liar(7.0)
def g(): return Fake()
"""
    assert run(source, "rlimits").value == 7.0
    assert run(source, "rlimits", name="g") == Outcome("refused", detail="Fake")


@pytest.mark.parametrize(
    "expression",
    [
        "object()",
        "open",
        "lambda: 1",
        "b'bytes'",
        "{1, 2}",
        "2 + 3j",
        "f",
        "10**2000",
        "[0] * 10**7",
    ],
)
def test_what_is_not_plain_or_too_large_is_refused(expression):
    assert run(f"def f(): return {expression}", "rlimits").kind in ("refused", "error")


def test_endless_nesting_is_refused():
    assert run("def f():\n    x = []\n    x.append(x)\n    return x", "rlimits").kind == "refused"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"value": 1},
        {"value": {"!": "pickle", "v": "x"}, "args": []},
        {"value": {"!": "float", "v": "1"}, "args": []},
        {"value": {"!": "dict", "v": [[[1], 2]]}, "args": []},
        {"value": {"!": "dict", "v": [1]}, "args": []},
        {"value": 1, "args": {"!": "tuple", "v": []}},
        {"error": {"type": "X"}},
        {"value": 1 << 5000, "args": []},
    ],
)
def test_a_forged_reply_is_garbled(reply):
    assert read_reply(reply).kind == "garbled"


def test_a_deep_reply_is_garbled():
    value = 1
    for _ in range(60):
        value = [value]
    assert read_reply({"value": value, "args": []}).kind == "garbled"


@pytest.mark.parametrize(
    "line", [b"[1]", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b"1" * 9999]
)
def test_a_line_that_is_no_message_is_an_error(line):
    with pytest.raises(wire.WireError):
        wire.loads(line)
