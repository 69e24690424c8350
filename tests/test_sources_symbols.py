"""Finding definitions in source text: exact lines, decorators, nesting, attributes."""

import ast
import textwrap

import pytest

from course.render.source_symbols import definitions

SOURCE = textwrap.dedent(
    """\
    LIMIT = 3
    a, b = 1, 2
    if LIMIT:
        guarded: int = 4

    @decorate
    @decorate(
        again=True,
    )
    class Worker(Base):
        kind = "chain"

        def __init__(self):
            self.slots = 0
            other.slots = 1

        @property
        def width(self):
            def inner():
                return 1
            return inner()

        def reset(self):
            self.slots = 0

    async def run():
        pass

    def twice():
        return 1

    def twice():
        return 2
    """
)


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("LIMIT", [(1, 1)]),
        ("b", [(2, 2)]),
        ("guarded", [(4, 4)]),
        ("Worker", [(6, 24)]),
        ("Worker.kind", [(11, 11)]),
        ("Worker.__init__", [(13, 15)]),
        ("Worker.slots", [(14, 14), (24, 24)]),
        ("Worker.width", [(17, 21)]),
        ("Worker.width.inner", [(19, 20)]),
        ("run", [(26, 27)]),
        ("twice", [(29, 30), (32, 33)]),
    ],
)
def test_definitions_start_at_the_first_decorator(symbol: str, lines: list[tuple[int, int]]):
    assert definitions(ast.parse(SOURCE), symbol) == lines


@pytest.mark.parametrize("symbol", ["width", "inner", "Worker.other", "Base", "missing", "run.x"])
def test_names_bound_elsewhere_are_not_definitions(symbol: str):
    assert definitions(ast.parse(SOURCE), symbol) == []
