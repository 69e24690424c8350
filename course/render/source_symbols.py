"""Where a dotted name is defined in Python source, found without running it.

A name is a class, a function, a method, an assigned name (of a module, class or function), or
``Class.attribute`` where a method assigns ``self.attribute``. A definition starts at its first
decorator, so that a range shows how the object is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def definitions(tree: ast.Module, symbol: str) -> list[tuple[int, int]]:
    """(first line, last line) of everything in ``tree`` that defines the dotted ``symbol``."""
    scopes: list[ast.AST] = [tree]
    for part in symbol.split("."):
        scopes = [found for scope in scopes for found in _bindings(scope, part)]
    return [_lines(node) for node in scopes if isinstance(node, ast.stmt)]


def _bindings(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    found = list(_named(scope, name))
    if not found and isinstance(scope, ast.ClassDef):
        found = [n for n in ast.walk(scope) if name in _self_attributes(n)]
    yield from found


def _named(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """What binds ``name`` in ``scope`` itself: also under if, try, with; not in nested defs."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, _SCOPES):
            if node.name == name:
                yield node
        elif any(isinstance(t, ast.Name) and t.id == name for t in _targets(node)):
            yield node
        else:
            yield from _named(node, name)


def _self_attributes(node: ast.AST) -> set[str]:
    return {
        target.attr
        for target in _targets(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [leaf for target in node.targets for leaf in getattr(target, "elts", [target])]
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _lines(node: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return first, node.end_lineno or node.lineno
