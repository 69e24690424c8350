"""Our steps in `nbgrader autograde`: rebuild, judge, record, and show the rubric.

nbgrader owns the gradebook and the folders; these steps replace only how a cell gets its verdict.
No student code runs in this process: `judge` sends it to the sandbox. A verdict travels from
JudgeCells to SaveVerdicts in the conversion's `resources`, never in the notebook, because a
notebook is something a student can write.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader import utils
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Dict
from traitlets.config import LoggingConfigurable

from autograder import decisions, hints, rubric
from autograder.assignment import answers_path, read_answers
from autograder.intake import clean
from autograder.judge import judge
from autograder.seed import grader_seed
from autograder.verdict import Judgement, Verdict

VERDICTS_FILE = "verdicts.json"
REPAIRED = {"en": "About what you handed in:", "zh": "关于你提交的文件："}
# What a browser or the renderer would act on; a blank after it makes it plain text everywhere,
# in code spans too: a tag, a link or image that is not to the web, a link inside a formula.
MAX_ENVIRONMENTS = 50  # the renderer looks for the end of each from its beginning
ACTIVE = re.compile(r"<(?=[A-Za-z/!?])|\](?=[(:](?!\s*<?https?://))|\\(?=href)")


def course_directory(plugin: LoggingConfigurable) -> CourseDirectory:
    """The course directory of the nbgrader converter that runs an exporter or a preprocessor."""
    owner: Any = plugin
    while not hasattr(owner, "coursedir"):
        owner = owner.parent
    return owner.coursedir


def release_file(coursedir: CourseDirectory, unit: str) -> Path:
    """The released notebook of a unit, from which every submission is rebuilt."""
    folder = coursedir.format_path(coursedir.release_directory, ".", unit)
    return Path(folder) / f"{unit}.ipynb"


class SubmissionExporter(NotebookExporter):
    """Reads a submission as text and rebuilds it from the release before nbgrader sees a cell."""

    def from_filename(
        self, filename: str, resources: dict | None = None, **options: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Convert one notebook; what intake had to repair is kept in `metadata.course.messages`."""
        coursedir = course_directory(self)
        autograded = Path(coursedir.root) / coursedir.autograded_directory
        if Path(filename).is_relative_to(autograded):
            return super().from_filename(filename, resources=resources, **options)
        unit = Path(filename).parent.name
        release = nbformat.read(release_file(coursedir, unit), as_version=4)
        nb, messages = clean(Path(filename).read_bytes(), release)
        nb.metadata.setdefault("course", {})["messages"] = messages
        return self.from_notebook_node(nb, resources=resources, **options)


class JudgeCells(NbGraderPreprocessor):
    """Takes the place of Execute: asks the judge, and writes each verdict as its cell's output."""

    judgement = Dict(help="What the judge has said already, as plain data").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Leaves the verdicts by id in `resources` and as a file beside the notebook."""
        root = Path(course_directory(self).root)
        unit = resources["nbgrader"]["assignment"]
        if self.judgement:
            judgement = Judgement.from_json(self.judgement)
        else:
            judgement = judge(nb, unit, grader_seed(classroom=root))
        verdicts = {verdict.id: verdict for verdict in judgement.checks}
        for cell in nb.cells:
            if utils.is_grade(cell) and cell.cell_type == "code":
                verdict = verdicts.get(cell.metadata["nbgrader"]["grade_id"])
                lang = nb.metadata.get("course", {}).get("lang", "en")
                cell.outputs = [] if verdict is None else [verdict_output(verdict, lang)]
        resources["course_verdicts"] = verdicts
        resources.setdefault("outputs", {})[VERDICTS_FILE] = verdicts_json(
            judgement, nb.metadata.get("course", {}).get("messages", [])
        )
        return nb, resources


def verdict_output(verdict: Verdict, lang: str) -> NotebookNode:
    """A verdict as a cell output; the reason may quote a student's value, so it is escaped."""
    name = verdict.verdict.replace("_", " ")
    points = (
        f"{verdict.points:g} / {verdict.max:g}" if verdict.is_scored else f"– / {verdict.max:g}"
    )
    data = {
        "text/plain": f"{name} ({points}): {verdict.reason}",
        "text/markdown": f"**{name}** ({points}): {quoted(verdict.reason)}"
        f"{hints.link(verdict, lang)}",
    }
    return new_output("display_data", data)


def verdicts_json(judgement: Judgement, messages: list[str]) -> bytes:
    """What verdicts.json holds: the judgement and what intake had to repair."""
    text = json.dumps({**judgement.to_json(), "messages": messages}, indent=1, ensure_ascii=False)
    return f"{text}\n".encode()


class SaveVerdicts(SaveAutoGrades):
    """Grades come from our verdicts alone; a cell without one waits for a person."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Record every graded cell of the notebook in the gradebook."""
        self.verdicts = resources.get("course_verdicts", {})
        root, names = Path(course_directory(self).root), resources["nbgrader"]
        kept = decisions.grounds_file(root, names["assignment"], names["student"])
        self.before = decisions.read_grounds(kept)
        self.grounds: decisions.Grounds = {}
        nb, resources = super().preprocess(nb, resources)
        decisions.write_grounds(kept, self.grounds)
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: dict) -> None:
        name = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(
            name, self.notebook_id, self.assignment_id, self.student_id
        )
        verdict = self.verdicts.get(name)
        if verdict is not None and verdict.max != grade.max_score:
            raise rubric.RubricError(
                f"{name}: worth {verdict.max:g} as a check, {grade.max_score:g} as a cell"
            )
        ground = self.grounds[name] = decisions.ground_of(cell, verdict)
        is_scored = verdict is not None and verdict.is_scored
        grade.auto_score = verdict.points if is_scored else None
        grade.needs_manual_grade = decisions.needs_person(
            grade, is_scored, ground == self.before.get(name)
        )
        self.gradebook.db.commit()


class ShowRubric(NbGraderPreprocessor):
    """Puts the rubric and the reference after each written answer, for the person who grades."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Insert the instructor-only cells, and make the student's own markdown harmless."""
        unit, lang = nb.metadata["course"]["unit"], nb.metadata["course"]["lang"]
        answers = read_answers(answers_path(unit, lang))
        cells = message_cells(nb.metadata["course"].get("messages", []), lang)
        for cell in nb.cells:
            cells.append(cell)
            if cell.cell_type == "markdown" and not utils.is_locked(cell):
                cell.source = harmless(cell.source)
            if cell.cell_type == "markdown" and utils.is_grade(cell):
                question = cell.metadata["nbgrader"]["grade_id"]
                text = rubric.for_instructor(unit, question, lang, answers[question][1])
                metadata = {"course": {"instructor_only": True}, "editable": False}
                cells.append(new_markdown_cell(text, metadata=metadata))
        nb.cells = cells
        return nb, resources


def harmless(text: str) -> str:
    """A student's markdown without markup that could act in the browser of the one who grades."""
    if text.count("\\begin") > MAX_ENVIRONMENTS:
        text = text.replace("\\begin", "\\ begin")
    return ACTIVE.sub(lambda match: f"{match[0]} ", text)


def quoted(text: str) -> str:
    """Text that may quote a student, as markdown that shows it and nothing else."""
    return harmless(html.escape(text))


def message_cells(messages: list[str], lang: str) -> list[NotebookNode]:
    """At most one cell: what was odd about the hand-in."""
    if not messages:
        return []
    lines = [f"- {quoted(message)}" for message in messages]
    return [new_markdown_cell("\n".join([f"**{REPAIRED[lang]}**", "", *lines]))]
