"""A classroom: nbgrader's course directory, in one language, and the verbs that work on it.

course.yml  grader_seed  gradebook.db  nbgrader_config.py
source/ release/ submitted/<student>/<unit>/ autograded/ feedback/
"""

import argparse
import os
import re
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbgrader.apps import NbGraderAPI
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder import assignment, seed
from autograder.nbgrader_config import configure, write_config
from autograder.parallel import Pool, Processes

STAGING = ".intake"


class ClassroomError(ValueError):
    """The classroom cannot do what was asked; the message says what to do."""


@dataclass(frozen=True)
class Classroom:
    """A classroom folder and its language."""

    path: Path
    lang: str

    @cached_property
    def api(self) -> NbGraderAPI:
        """nbgrader with our configuration, grading from the staging folder."""
        # nbgrader 0.9.6 reads an attribute of a new submission before it adds it to its session.
        warnings.filterwarnings("ignore", category=SAWarning)
        # It also starts `alembic` by name; only an activated environment has that on its path.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        api = NbGraderAPI(config=configure(Config(), self.path))
        api.coursedir.submitted_directory = STAGING
        return api

    def autograde(self, unit: str, student: str, judgement: dict[str, Any]) -> dict[str, Any]:
        """`nbgrader autograde` of a staged submission that is judged already; nbgrader's result."""
        self.api.config.JudgeCells.judgement = judgement
        try:
            return self.api.autograde(unit, student, force=True)
        finally:
            del self.api.config.JudgeCells.judgement

    def notebook(self, step: str, unit: str, student: str = ".") -> Path:
        """The notebook of a unit in one of nbgrader's folders."""
        return self.path / step / student / unit / f"{unit}.ipynb"

    def units(self) -> list[str]:
        """The units that were released here."""
        return sorted(path.parent.name for path in self.path.glob("release/*/*.ipynb"))

    def students(self, unit: str) -> list[str]:
        """Everyone with a folder for the unit in submitted/, by a name that can be written."""
        found = sorted(path.parent.name for path in self.path.glob(f"submitted/*/{unit}"))
        for name in found:
            if not is_utf8(name):
                print(f"submitted/{name!a}: not UTF-8, nobody can be graded by it: rename it")
        return list(filter(is_utf8, found))


def open_classroom(path: Path, lang: str | None = None) -> Classroom:
    """An existing classroom. `lang`, where given, must be the classroom's own."""
    file = path / "course.yml"
    if not file.exists():
        raise ClassroomError(f"{path}: no classroom here (no course.yml); run: make release")
    try:
        kept = yaml.safe_load(file.read_text(encoding="utf-8"))["lang"]
        assignment.suffix(kept)
    except (yaml.YAMLError, TypeError, KeyError, assignment.AssignmentError):
        raise ClassroomError(f"{file}: must hold one line `lang: en` or `lang: zh`") from None
    if lang and lang != kept:
        raise ClassroomError(
            f"{path} is a classroom in {kept!r}; for {lang!r} make another one: "
            f"CLASSROOM={path}-{lang} COURSE_LANG={lang} make release"
        )
    return Classroom(path, kept)


def create_classroom(path: Path, lang: str | None = None) -> Classroom:
    """The classroom at `path`, made on first use in `lang` (default en)."""
    if not (path / "course.yml").exists():
        assignment.suffix(lang or "en")
        try:
            (path / "submitted").mkdir(parents=True, exist_ok=True)
            (path / "course.yml").write_text(f"lang: {lang or 'en'}\n", encoding="utf-8")
        except OSError as error:
            raise ClassroomError(f"{path}: cannot be a classroom: {error.strerror}") from None
    classroom = open_classroom(path, lang)
    write_config(path)
    seed.grader_seed(classroom=path)
    return classroom


def source_text(classroom: Classroom, unit: str) -> str:
    """The instructor's notebook as the lesson is now; the judge goes by the lesson of now too."""
    return nbformat.writes(assignment.build_source(unit, classroom.lang))


def release(classroom: Classroom, unit: str) -> bool:
    """Write source/ and release/ of a unit through nbgrader; False when both were up to date."""
    source = classroom.notebook("source", unit)
    text = source_text(classroom, unit)
    released = classroom.notebook("release", unit)
    if released.exists() and source.exists() and source.read_text(encoding="utf-8") == text:
        return False
    source.parent.mkdir(parents=True, exist_ok=True)
    released.unlink(missing_ok=True)
    source.write_text(text, encoding="utf-8")
    result = classroom.api.generate_assignment(unit)
    if not result["success"]:
        raise ClassroomError(explain_release(unit, result))
    return True


def is_utf8(name: str) -> bool:
    """Whether a file system's name is text that a gradebook can hold."""
    return name.encode("utf-8", "replace").decode() == name


def shown(path: Path) -> str:
    """A path as a person types it here."""
    return os.path.relpath(path)


def first_exception(result: dict) -> str:
    """What stopped nbgrader: the exception line of the first traceback in its log."""
    log = f"{result.get('log', '')}\n{result.get('error', '')}"
    lines = [line.strip() for line in log.splitlines()]
    found = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Unreadable)\b", line)]
    return found[0] if found else "no reason given"


def explain_release(unit: str, result: dict) -> str:
    """Why a release failed, and what to do."""
    reason = first_exception(result)
    if "Cannot add or remove cells" in reason:
        return (
            f"{unit}: the lesson has gained or lost cells since students handed it in; "
            "release it in a new classroom (CLASSROOM=…), or undo that change"
        )
    return f"{unit}: nbgrader could not release it: {reason}"


def chosen_units(known: list[str], unit: str | None, where: str) -> list[str]:
    """The unit asked for, or all of them."""
    if unit and unit not in known:
        raise ClassroomError(
            f"no unit {unit!r} in {where}; there are: {', '.join(known) or 'none'}"
        )
    return [unit] if unit else known


def chosen_pool(num_jobs: int, cluster: str | None) -> Pool:
    """Where to judge. Raises ClassroomError or ClusterError."""
    if cluster:
        from autograder.cluster import Cluster  # needs Dask, which is optional

        return Cluster(cluster)
    if num_jobs < 1:
        raise ClassroomError(f"--jobs {num_jobs}: at least one process has to judge")
    return Processes(num_jobs)


def main(argv: list[str]) -> int:
    """`release`, `autograde` or `feedback`: argv[0] says which."""
    # Grading and feedback read a classroom, so they import this module.
    from autograder import submissions

    verb = argv[0]
    parser = argparse.ArgumentParser(prog=f"python -m autograder {verb}")
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: all")
    if verb == "autograde":
        parser.add_argument("--student", help="only this one")
        parser.add_argument("--force", action="store_true", help="also what is up to date")
        parser.add_argument("--jobs", type=int, default=1, help="processes that judge; default 1")
        parser.add_argument("--cluster", help="the Dask scheduler whose workers judge: tcp://…")
    args = parser.parse_args(argv[1:])
    path, lang = seed.classroom_dir(), os.environ.get("COURSE_LANG")
    if verb == "release":
        classroom = create_classroom(path, lang)
        for unit in chosen_units(assignment.units(), args.unit, "lessons/"):
            state = "released" if release(classroom, unit) else "up to date"
            print(f"{unit}: {state}: {shown(classroom.notebook('release', unit))}")
        return 0
    classroom = open_classroom(path, lang)
    pool = chosen_pool(args.jobs, args.cluster) if verb == "autograde" else None
    for unit in chosen_units(classroom.units(), args.unit, f"{path}/release"):
        if pool:
            submissions.autograde(classroom, unit, args.student, args.force, pool)
        else:
            submissions.write_feedback(classroom, unit)
    return 0
