"""The rules of a lesson's source that the parser alone does not enforce.

Structure (fences, divs, nested cells) is checked while parsing; here: labels, roles, points, pairs
of exercise and answer, and that the two languages hold the same cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from course.render.qmd import Answer, Block, Cell, Document, QmdError, parse

ROLES = ("setup", "exercise", "practice", "check")
NOT_FOR_QUARTO = ("exercise", "practice", "check")  # these need the student's answer to run
BLANK = "______"
LABEL = re.compile(r"(?!md-\d)[A-Za-z][A-Za-z0-9_-]{0,63}")


def lint_all(root: Path) -> list[QmdError]:
    """Every problem of the lessons, solutions and course pages under `root`, in file order."""
    problems: list[QmdError] = []
    for path in sorted([*root.glob("lessons/*.qmd"), *root.glob("course/**/*.qmd")]):
        try:
            doc = parse(path)
            problems += lint_document(doc, lesson=path.parent.name == "lessons")
            if path.parent.name == "lessons":
                problems += lint_answers(doc, solution_path(root, doc))
            problems += lint_translation(doc)
        except QmdError as error:
            problems.append(error)
    return problems


def solution_path(root: Path, doc: Document) -> Path:
    """Where the answers of a lesson are: solutions/<unit>/answers.qmd or answers.zh.qmd."""
    suffix = ".zh.qmd" if doc.lang == "zh" else ".qmd"
    return root / "solutions" / doc.unit / f"answers{suffix}"


def lint_document(doc: Document, lesson: bool = True) -> list[QmdError]:
    """Problems within one file; `lesson` asks for a label on every cell."""
    problems = list(_front_problems(doc))
    seen: dict[str, int] = {}
    for block in [b for b in doc.blocks if isinstance(b, Cell | Answer)]:
        if block.label is None:
            if lesson:
                problems.append(_problem(doc, block, "a cell without `#| label:`; give it one"))
            continue
        if not LABEL.fullmatch(block.label):
            problems.append(
                _problem(doc, block, f"label {block.label!r}: use letters, digits, - and _ only")
            )
        if block.label in seen:
            problems.append(
                _problem(
                    doc, block, f"label {block.label!r} is already used on line {seen[block.label]}"
                )
            )
        seen.setdefault(block.label, block.line)
    for cell in doc.cells:
        problems += _role_problems(doc, cell)
    problems += [
        _problem(doc, answer, f'answer {answer.label!r} needs points="..."')
        for answer in doc.answers
        if answer.points is None
    ]
    return problems


def lint_answers(doc: Document, path: Path) -> list[QmdError]:
    """Pair the lesson's exercises and written answers with those of the solution file `path`."""
    exercises = {cell.label: cell for cell in doc.cells if cell.role == "exercise"}
    written = {answer.label: answer for answer in doc.answers}
    if not exercises and not written:
        return []
    solution = parse(path)
    solved = {cell.label: cell for cell in solution.cells}
    reference = {answer.label: answer for answer in solution.answers}
    missing = [(label, exercises[label]) for label in exercises if label not in solved]
    unanswered = [(label, written[label]) for label in written if label not in reference]
    orphans = [(label, solved[label]) for label in solved if label not in exercises]
    strays = [(label, reference[label]) for label in reference if label not in written]
    return [
        _problem(doc, block, f"{label!r} has no answer in {path}")
        for label, block in [*missing, *unanswered]
    ] + [
        _problem(solution, block, f"{label!r} answers nothing in {doc.path}")
        for label, block in [*orphans, *strays]
    ]


def lint_translation(doc: Document) -> list[QmdError]:
    """Compare an English file with its Chinese one: same cells, same order, equal code.

    404.qmd has no translation: a server shows one such page, so it speaks both languages.
    """
    if doc.path.name == "404.qmd":
        return []
    if doc.path.name.endswith(".zh.qmd"):
        original = doc.path.with_name(doc.path.name.removesuffix(".zh.qmd") + ".qmd")
        return [] if original.exists() else [QmdError(doc.path, 1, f"{original} is missing")]
    path = doc.path.with_suffix(".zh.qmd")
    if not path.exists():
        return [QmdError(doc.path, 1, f"{path} is missing; every page has both languages")]
    other = parse(path)
    mine = [b for b in doc.blocks if isinstance(b, Cell | Answer)]
    theirs = [b for b in other.blocks if isinstance(b, Cell | Answer)]
    for a, b in zip(mine, theirs, strict=False):
        if difference := _difference(a, b):
            where = f"{doc.path}:{a.line} (label {a.label!r})"
            return [_problem(other, b, f"{difference} differs from {where}")]
    if len(mine) != len(theirs):
        counts = f"{len(theirs)} cells and answers here, {len(mine)} in {doc.path}"
        return [QmdError(path, 1, counts)]
    return []


def _difference(a: Cell | Answer, b: Cell | Answer) -> str | None:
    """What differs between a cell and its translation, in a word; None if nothing does."""
    if type(a) is not type(b):
        return "kind of block"
    if a.label != b.label:
        return f"label {b.label!r}"
    if isinstance(a, Answer) and isinstance(b, Answer):
        return "points" if a.points != b.points else None
    assert isinstance(a, Cell) and isinstance(b, Cell)
    if a.source != b.source:
        return "code"
    if a.metadata != b.metadata or a.options.get("eval") != b.options.get("eval"):
        return "options"
    return None


def _front_problems(doc: Document) -> Iterator[QmdError]:
    if "title" not in doc.front:
        yield QmdError(doc.path, 1, "the front matter needs a title")
    expected = "zh" if doc.path.name.endswith(".zh.qmd") else "en"
    if doc.front.get("lang") != expected:
        yield QmdError(doc.path, 1, f"the front matter needs `lang: {expected}`")


def _role_problems(doc: Document, cell: Cell) -> Iterator[QmdError]:
    role, points = cell.role, cell.metadata.get("points")
    if role is not None and role not in ROLES:
        known = ", ".join(ROLES)
        yield _problem(doc, cell, f"unknown course_role {role!r}; use one of {known}, or none")
    if role in NOT_FOR_QUARTO and cell.options.get("eval") is not False:
        yield _problem(doc, cell, f"a cell of role {role} needs `#| eval: false`")
    if role == "exercise" and BLANK not in cell.source:
        yield _problem(doc, cell, f"an exercise needs a blank {BLANK}")
    if role == "check" and not (isinstance(points, int | float) and points >= 0):
        yield _problem(doc, cell, f"a check needs `#| points:` of 0 or more, found {points!r}")


def _problem(doc: Document, block: Block, message: str) -> QmdError:
    return QmdError(doc.path, block.line, message)
