"""Natural text to train on: the docstrings and source of the Python standard library at hand.

The target is only run over it, which is ten times cheaper than letting it write; but the drafter
then learns from texts the target did not choose, so what the target wrote itself comes last.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from lessons.lib.model.tokenizer import Tokenizer
from lessons.lib.train.data import Sample

_CHUNK = 192  # tokens of a sample
_SHORTEST = 32


def library_samples(tokenizer: Tokenizer, num_tokens: int) -> list[Sample]:
    """About num_tokens tokens, from every module in the order of its path; half are docstrings
    and half is code, give or take a module, so that neither pushes the other out."""
    left = {"text": num_tokens // 2, "source": num_tokens // 2}
    samples: list[Sample] = []
    for path in _modules():
        if max(left.values()) <= 0:
            break
        for kind, text in _texts(path):
            for sample in _chunks(tokenizer.encode(text), kind) if left[kind] > 0 else ():
                left[kind] -= sample.num_response
                samples.append(sample)
    return samples


def library_docs() -> list[str]:
    """Every docstring."""
    return [text for path in _modules() for kind, text in _texts(path) if kind == "text"]


def _modules() -> list[Path]:
    return sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text(encoding="utf-8", errors="ignore")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some modules warn about their own escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # some files of the library's tests are wrong on purpose
    yield "source", source
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, nodes) and (text := ast.get_docstring(node)):
            yield "text", text


def _chunks(ids: list[int], kind: str) -> Iterator[Sample]:
    """The first token of a chunk is its prompt: nothing predicts it."""
    for start in range(0, len(ids), _CHUNK):
        part = ids[start : start + _CHUNK]
        if len(part) >= _SHORTEST:
            yield Sample(part, 1, kind)
