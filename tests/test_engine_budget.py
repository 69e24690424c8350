"""The engine stays small enough to read in an evening.

Counted are lines that hold code: no blank ones, no comments, no docstrings.

engine   lessons/lib/*.py and lessons/lib/model, and of lessons/lib/draft what every drafter needs
         (the protocol, the registry, the view of the target's KV). The single drafters, each in
         files of its own and read one at a time, are not counted; nor are bench, train, serving,
         and the plugs and checks of the labs, which run the engine and are no part of it.
kernels  all of kernels/, with the references, benchmark and soak that stand beside the kernels.

Length of files and functions is held for every file of both packages.
"""

import ast
import io
import statistics
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED_BY_DRAFTERS = ("proposer.py", "registry.py", "target_kv.py")
MOST_ENGINE, MOST_KERNELS = 3000, 2200
MOST_FILE, MOST_FUNCTION, MEDIAN_FUNCTION = 300, 60, 12
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def engine_files():
    lib = ROOT / "lessons/lib"
    draft = [lib / "draft" / name for name in SHARED_BY_DRAFTERS]
    return [*sorted(lib.glob("*.py")), *files("lessons/lib/model"), *draft]


def code_lines(text):
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(held - documented)


def function_lengths(path):
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        f"{path.relative_to(ROOT)}: {node.name}": node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, functions)
    }


def total(paths):
    return sum(code_lines(path.read_text("utf-8")) for path in paths)


def test_lines_of_code():
    assert len(engine_files()) > 25
    assert 1500 < total(engine_files()) <= MOST_ENGINE
    assert 1000 < total(files("kernels")) <= MOST_KERNELS


def test_files_and_functions_are_short():
    paths = files("kernels", "lessons/lib")
    lengths = {p: len(p.read_text("utf-8").splitlines()) for p in paths}
    too_long = [f"{p.relative_to(ROOT)}: {n} lines" for p, n in lengths.items() if n > MOST_FILE]
    assert not too_long, too_long
    functions = {name: n for path in paths for name, n in function_lengths(path).items()}
    assert len(functions) > 500
    assert not [f"{name}: {n} lines" for name, n in functions.items() if n > MOST_FUNCTION]
    assert statistics.median(functions.values()) < MEDIAN_FUNCTION


@pytest.mark.parametrize(
    "text, expected",
    [
        ('"""Module."""\n\n# word\nx = 1  # word\n', 1),
        ('def f():\n    """Doc.\n\n    More.\n    """\n    return (\n        1\n    )\n', 4),
        ('class A:\n    "Doc."\n\n    text = """one\n    two\n    """\n', 4),
    ],
)
def test_what_counts_as_code(text, expected):
    assert code_lines(text) == expected
