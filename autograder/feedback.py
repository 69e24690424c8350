"""Our steps in `nbgrader generate_feedback`: what a student gets back, and what not."""

import math
from pathlib import Path
from typing import Any

from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor

from autograder import rubric
from autograder.preprocessors import course_directory, message_cells
from autograder.status import read_status

WORDS = {
    "en": {
        "waiting": "**This score is provisional.** A person still has to decide: {names}.",
        "ungraded": "Not graded yet: a person will read this answer.",
    },
    "zh": {
        "waiting": "**此分数是暂定的。** 以下各项仍需人工评定：{names}。",
        "ungraded": "尚未评分：将由人工阅读此答案。",
    },
}


class FeedbackPage(HTMLExporter):
    """nbgrader's page, on which an open score is a dash: its template writes numbers only."""

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Convert one notebook; a score that is no number is one that nobody has decided."""
        page, resources = super().from_notebook_node(nb, resources, **options)
        return page.replace("Score: nan /", "Score: – /"), resources


class DropInstructorCells(NbGraderPreprocessor):
    """Rubric and reference answers stay with the instructor."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Remove every cell marked `course.instructor_only`."""
        nb.cells = [
            cell
            for cell in nb.cells
            if not cell.metadata.get("course", {}).get("instructor_only", False)
        ]
        return nb, resources


class ShowGrades(GetGrades):
    """nbgrader's scores and comments; what still waits for a person is said, not shown as zero."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Fill in the scores; the verdicts go on top, with a note while any score is open."""
        self.course = nb.metadata["course"]
        self.rubric = rubric.read_rubric(self.course["unit"])
        self.waiting: list[str] = []
        self.checks: list[str] = []
        nb, resources = super().preprocess(nb, resources)
        top = message_cells(self.hand_in_messages(resources), self.course["lang"])
        if self.waiting:
            text = self.words["waiting"].format(names=", ".join(self.waiting))
            top.append(new_markdown_cell(text))
        top.append(new_markdown_cell("\n".join(self.checks)))
        nb.cells = top + nb.cells
        return nb, resources

    def hand_in_messages(self, resources: dict) -> list[str]:
        """What was odd about the files; what was odd in the notebook is already in it."""
        unit, student = resources["nbgrader"]["assignment"], resources["nbgrader"]["student"]
        status = read_status(Path(course_directory(self).root), unit, student)
        known = self.course.get("messages", [])
        return [message for message in status.messages if message not in known] if status else []

    @property
    def words(self) -> dict[str, str]:
        """The texts in the classroom's language."""
        return WORDS[self.course["lang"]]

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        name = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(
            name, self.notebook_id, self.assignment_id, self.student_id
        )
        if cell.cell_type == "code":
            said = [output["data"]["text/markdown"] for output in cell.outputs]
            self.checks.append(f"- [{name}](#{name}): {' '.join(said)}")
        if grade.needs_manual_grade:
            self.waiting.append(name)
            cell.metadata["nbgrader"]["score"] = math.nan  # nbgrader's would be 0
            if cell.cell_type == "markdown" and not cell.metadata["nbgrader"]["comment"]:
                cell.metadata["nbgrader"]["comment"] = self.words["ungraded"]

    def _get_comment(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_comment(cell, resources)
        comment = cell.metadata["nbgrader"]["comment"]
        if comment:
            spelled = rubric.spell_out_vetoes(comment, self.rubric, self.course["lang"])
            cell.metadata["nbgrader"]["comment"] = spelled
