"""Run a lesson's cells once, with the answers filled in, and keep the outputs.

The outputs are cached under build/cache by everything that can change them: the code that runs,
the engine's files, the versions of Python and of the packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from tqdm import tqdm

from course.render.document import Cell, Document, QmdError

Outputs = list[list[NotebookNode]]  # one list of outputs for each cell of the document

# Every package whose version can show in an output.
PACKAGES = ("torch", "numpy", "pandas", "matplotlib", "tokenizers", "gguf", "ipykernel")
ENGINE = (
    "kernels/**/*.py",
    "lessons/lib/**/*.py",
    "lessons/lib/**/*.json",
    "course/results/*.json",
)
SOURCE_MAP = ("course/source_map.yml", "course/render/source_map.py")  # of cells that import it
CELL_SECONDS = 1800


def execute(
    doc: Document,
    answers: dict[str, str],
    root: Path,
    key: str | None = None,
    progress: bool = True,
) -> Outputs:
    """The outputs of every cell of `doc`, in order.

    `answers` maps the label of an exercise cell to the code that replaces it. Cells run in `root`,
    which is also on their import path. `key` is that of `outputs_key`, where the caller has it: a
    file that changes meanwhile then does not part the two languages of a lesson. Raises QmdError,
    with file, line and label, when a cell fails or an exercise has no answer.
    """
    sources = filled_in(doc, answers)
    if not sources:
        return []
    store = root / "build/cache/outputs" / f"{key or outputs_key(doc, answers, root)}.json"
    if store.exists():
        return [nbformat.from_dict(outputs) for outputs in json.loads(store.read_text("utf-8"))]
    outputs = _run(doc, sources, root, progress)
    store.parent.mkdir(parents=True, exist_ok=True)
    partial = store.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(outputs, ensure_ascii=False), encoding="utf-8")
    partial.replace(store)
    return outputs


def filled_in(doc: Document, answers: dict[str, str]) -> list[str]:
    """The code that runs, cell by cell: exercises replaced by their answers."""
    sources = []
    for cell in doc.cells:
        if cell.role != "exercise":
            sources.append(cell.source)
        elif cell.label in answers:
            sources.append(answers[str(cell.label)])
        else:
            raise QmdError(doc.path, cell.line, f"exercise {cell.label!r} has no answer")
    return sources


def outputs_key(doc: Document, answers: dict[str, str], root: Path) -> str:
    """A hash of all that the outputs of `doc` depend on."""
    digest = hashlib.sha256()
    fails = [bool(cell.options.get("error")) for cell in doc.cells]
    versions = [platform.python_version(), *map(_version, PACKAGES)]
    digest.update(json.dumps([filled_in(doc, answers), fails, versions]).encode())
    reads_map = any("course.render.source_map" in cell.source for cell in doc.cells)
    if doc.cells:
        for pattern in (*ENGINE, *(SOURCE_MAP if reads_map else ())):
            for path in sorted(root.glob(pattern)):
                digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _run(doc: Document, sources: list[str], root: Path, progress: bool) -> Outputs:
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    for node, cell in zip(notebook.cells, doc.cells, strict=True):
        if cell.options.get("error"):
            node.metadata["tags"] = ["raises-exception"]
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(root.resolve())}},
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # else it warns of its own transport
    )
    path = os.pathsep.join(filter(None, [str(root.resolve()), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    bar = tqdm(doc.cells, desc=doc.unit, unit="cell", leave=False, disable=not progress)
    with client.setup_kernel(env=environment):
        for index, cell in enumerate(bar):
            bar.set_postfix_str(cell.label or "")
            with _told_in_one_line(doc, cell):
                client.execute_cell(notebook.cells[index], index)
    return [node.outputs for node in notebook.cells]


@contextmanager
def _told_in_one_line(doc: Document, cell: Cell) -> Iterator[None]:
    """Whatever goes wrong in a cell is told in one line with the cell's place in the source."""
    name = f"cell {cell.label!r}"
    try:
        yield
    except CellExecutionError as error:
        reason = f"{error.ename}: {error.evalue}".splitlines()[0]
        raise QmdError(doc.path, cell.line, f"{name} raised {reason}") from None
    except CellTimeoutError:
        message = f"{name} ran longer than {CELL_SECONDS} s; make it smaller"
        raise QmdError(doc.path, cell.line, message) from None
    except DeadKernelError:
        message = f"{name} killed its kernel (often: out of memory)"
        raise QmdError(doc.path, cell.line, message) from None
