"""Turn a parsed lesson into a Jupyter notebook, cell for cell as Quarto's own converter would.

`to_notebook` keeps the markdown as written; `course.render.readable` makes it fit for JupyterLab.
"""

from __future__ import annotations

import nbformat
import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from course.render.qmd import Answer, Block, Cell, Document, FrontMatter

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def to_notebook(doc: Document) -> NotebookNode:
    """A valid nbformat 4.5 notebook of `doc`.

    Front matter becomes a raw cell (without `jupyter:`), the rest one cell a block; a markdown
    block loses its first and last blank lines, an empty one is dropped. Unknown `#|` keys are in
    `cell.metadata`, known ones stay in the source; `cell.metadata["label"]` and the cell's id are
    the label. Markdown cells are `md-1`, `md-2`, ... An answer block is a markdown cell with
    course_role "answer", label and points.
    """
    cells = [cell for block in doc.blocks if (cell := _convert(block)) is not None]
    _set_ids(cells)
    notebook = new_notebook(cells=cells, metadata={"kernelspec": dict(KERNEL)})
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["course"] = {"unit": doc.unit, "lang": doc.lang, "title": doc.title}
    nbformat.validate(notebook)
    return notebook


def _convert(block: Block) -> NotebookNode | None:
    if isinstance(block, FrontMatter):
        data = {key: value for key, value in block.data.items() if key != "jupyter"}
        header = yaml.safe_dump(data, allow_unicode=True, sort_keys=False).strip()
        return new_raw_cell(f"---\n{header}\n---", metadata={"course_role": "front-matter"})
    if isinstance(block, Cell):
        return _code_cell(block)
    if isinstance(block, Answer):
        metadata: dict[str, object] = {"course_role": "answer", "label": block.label}
        if block.points is not None:
            metadata["points"] = block.points
        return new_markdown_cell(block.body.strip("\n"), metadata=metadata)
    text = block.text.strip("\n")
    return new_markdown_cell(text) if text.strip() else None


def _code_cell(cell: Cell) -> NotebookNode:
    options = "".join(f"#| {line}\n" for line in cell.option_lines)
    metadata = dict(cell.metadata)
    cell_id = metadata.pop("id", cell.label)
    if cell.label is not None:
        metadata["label"] = cell.label
    if cell.indent:
        metadata["md-indent"] = cell.indent
    node = new_code_cell(options + cell.source, metadata=metadata)
    node.id = "" if cell_id is None else str(cell_id)
    return node


def _set_ids(cells: list[NotebookNode]) -> None:
    """Ids that stay the same as long as the lesson does: the label, else kind and count."""
    num_markdown = num_code = 0
    for cell in cells:
        role = cell.metadata.get("course_role")
        if role == "front-matter":
            cell.id = role
        elif role == "answer":
            cell.id = cell.metadata["label"]
        elif cell.cell_type == "markdown":
            num_markdown += 1
            cell.id = f"md-{num_markdown}"
        elif not cell.id:
            num_code += 1
            cell.id = f"cell-{num_code}"
