"""nbgrader's configuration: our preprocessors in its pipeline, for every way of calling it.

The classroom's own nbgrader_config.py calls `configure`, so the stock commands and formgrader in
that folder grade exactly as `python -m autograder autograde` does.
"""

from pathlib import Path

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ComputeChecksums,
    LockCells,
    OverwriteCells,
    OverwriteKernelspec,
    SaveCells,
)
from traitlets.config import Config

from autograder import feedback, preprocessors
from autograder.assignment import ROOT, RestoreBlanks

VERDICTS_FILE = preprocessors.VERDICTS_FILE
# Validate runs the whole lesson, and its measurements run the model.
CELL_SECONDS = 300
OUTPUT_SECONDS = 60

EXCHANGE = ".exchange"
# zip_collect: the student up to the first underscore, then the unit: amy_lesson08.ipynb, and as
# Canvas names what it downloads, zhouamy_LATE_12_345_lesson08-1.ipynb.
COLLECTED = r".*/(?P<student_id>[^/_]+)_[^/]*?(?P<file_id>lesson\d+|lab\d+[a-z])[^/]*$"

CLASSROOM_CONFIG = """\
# Written by `python -m autograder release`; changes here are lost.
import sys

sys.path.insert(0, {root!r})
from autograder.nbgrader_config import configure

configure(get_config(), {classroom!r})
"""

STUDENT_CONFIG = f"""\
# Written by `python -m autograder lab`: how long Validate waits for a cell and for its output.
c = get_config()
c.Execute.timeout = {CELL_SECONDS}
c.Execute.iopub_timeout = {OUTPUT_SECONDS}
"""


def configure(config: Config, classroom: Path | str) -> Config:
    """Fill nbgrader's configuration for a classroom folder; returns `config`."""
    root = Path(classroom).resolve()
    config.CourseDirectory.root = str(root)
    # nbgrader complains without one; files come and go by hand or by another system here.
    config.Exchange.root = str(root / EXCHANGE)
    config.CourseDirectory.ignore = [
        *CourseDirectory.ignore.default(),
        VERDICTS_FILE,
    ]
    config.GenerateAssignment.preprocessors = [
        LockCells,
        RestoreBlanks,
        ClearOutput,
        CheckCellMetadata,
        ComputeChecksums,
        SaveCells,
    ]
    config.Autograde.exporter_class = preprocessors.SubmissionExporter
    config.Autograde.sanitize_preprocessors = [
        ClearOutput,
        OverwriteKernelspec,
        OverwriteCells,
        CheckCellMetadata,
    ]
    config.Autograde.autograde_preprocessors = [
        preprocessors.JudgeCells,
        preprocessors.SaveVerdicts,
        AssignLatePenalties,
        preprocessors.ShowRubric,
        CheckCellMetadata,
    ]
    config.GenerateFeedback.exporter_class = feedback.FeedbackPage
    config.GenerateFeedback.preprocessors = [
        feedback.DropInstructorCells,
        feedback.ShowGrades,
        CSSHTMLHeaderPreprocessor,
    ]
    config.FileNameCollectorPlugin.named_regexp = COLLECTED
    # By name: it reads the report, which needs this module.
    config.ExportApp.plugin_class = "autograder.export.CourseExport"
    config.Execute.timeout = CELL_SECONDS
    config.Execute.iopub_timeout = OUTPUT_SECONDS
    return config


def write_config(classroom: Path) -> None:
    """Write the classroom's nbgrader_config.py."""
    (classroom / EXCHANGE).mkdir(exist_ok=True)
    text = CLASSROOM_CONFIG.format(root=str(ROOT), classroom=str(classroom.resolve()))
    (classroom / "nbgrader_config.py").write_text(text, encoding="utf-8")
