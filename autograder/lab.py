"""`lab` opens the student's copies in JupyterLab, `formgrader` a classroom.

    python -m autograder lab [UNIT] [--port 8890] [--no-browser …]

Without a UNIT a start page opens that lists all units and the student's progress.

Options this module does not know go to JupyterLab as they are; those with a value need the `=`.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

import nbformat

from autograder.assignment import ROOT, build_release, units
from autograder.classroom import chosen_units, open_classroom
from autograder.nbgrader_config import STUDENT_CONFIG, write_config
from autograder.seed import classroom_dir
from lessons.lib.start_page import write_start_page

STUDENT = ROOT / "build" / "student"


def student_copy(unit: str, lang: str, folder: Path = STUDENT) -> tuple[Path, bool]:
    """The student's notebook of a unit, and whether it was made now; an existing one stays."""
    path = folder / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Validate reads the configuration of the folder it runs in.
    (path.parent / "nbgrader_config.py").write_text(STUDENT_CONFIG, encoding="utf-8")
    if path.exists():
        return path, False
    nbformat.write(build_release(unit, lang), path)
    return path, True


def start_lab(folder: Path, options: list[str]) -> NoReturn:
    """Become JupyterLab in `folder`; kernels started there can import the course's packages."""
    python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # nbgrader starts programs of its environment by name.
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(python_path),
        "PATH": os.pathsep.join(path),
    }
    os.chdir(folder)
    os.execve(sys.executable, [sys.executable, "-m", "jupyterlab", *options], environment)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """JupyterLab's options whose value may follow after a space, so that it is not the UNIT."""
    parser.add_argument("--port", type=int)
    parser.add_argument("--ip")


def server_options(args: argparse.Namespace) -> list[str]:
    """Those options as JupyterLab wants them."""
    given = {"port": args.port, "ip": args.ip}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def main(argv: list[str]) -> int:
    """`lab` or `formgrader`: argv[0] says which. Does not return once JupyterLab runs."""
    verb = argv[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m autograder {verb}", epilog="Other options go to JupyterLab."
    )
    add_server_options(parser)
    if verb == "formgrader":
        args, options = parser.parse_known_args(argv[1:])
        options += server_options(args)
        classroom = open_classroom(classroom_dir())
        write_config(classroom.path)
        start_lab(classroom.path, ["--LabApp.default_url=/formgrader", *options])
    parser.add_argument("unit", nargs="?", help="such as lesson08; default: the start page")
    parser.add_argument("--folder", type=Path, default=STUDENT, help="default: build/student")
    args, options = parser.parse_known_args(argv[1:])
    options += server_options(args)
    lang, known = os.environ.get("COURSE_LANG") or "en", units()
    for unit in chosen_units(known, args.unit, "lessons/"):
        path, is_new = student_copy(unit, lang, args.folder)
        if is_new:
            print(f"your copy: {path}")
        else:
            print(f"your copy is kept as it is: {path} (to start afresh, move it away)")
    if args.unit:
        return start_lab(path.parent, [f"--LabApp.default_url=/lab/tree/{path.name}", *options])
    # Validate reads the configuration of the folder that the server was started in.
    (args.folder / "nbgrader_config.py").write_text(STUDENT_CONFIG, encoding="utf-8")
    page = write_start_page(args.folder, lang)
    return start_lab(args.folder, [f"--LabApp.default_url=/lab/tree/{page.name}", *options])
