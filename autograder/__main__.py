"""`python -m autograder VERB …`: one module a verb, each with `main(argv)`."""

import importlib
import sys

VERBS = {
    "course": ("autograder.sample_class", "grade a sample class and render the site"),
    "lab": ("autograder.lab", "open the student's copy of a lesson in JupyterLab"),
    "kit": ("autograder.kit", "build the zip that a student receives"),
    "release": ("autograder.classroom", "build source/ and release/ of the classroom"),
    "autograde": ("autograder.classroom", "grade what lies in the classroom's submitted/"),
    "feedback": ("autograder.classroom", "write the classroom's feedback/"),
    "report": ("autograder.report", "apply the pass rule, write report.csv and report.html"),
    "export": ("autograder.export", "write the points as CSV, for nbgrader or for Canvas"),
    "formgrader": ("autograder.lab", "grade the written answers in the browser"),
    "grade": ("autograder.grade", "judge one notebook, without any gradebook"),
    "units": ("autograder.unit_table", "a table: what every unit has, and whether it holds"),
    "newcomer": ("autograder.newcomer", "do every unit as a student would, to the grade"),
    "selfcheck": ("autograder.selfcheck", "try every mutant and every attack on this grader"),
    "doctor": ("autograder.doctor", "say what this machine has and what is missing"),
}
# Modules that serve two verbs are told which one was asked for.
SHARED = {"autograder.classroom", "autograder.lab"}
OURS = ("autograder", "course", "lessons", "kernels")


def usage() -> str:
    """One line a verb."""
    lines = [f"  {verb:12} {about}" for verb, (_, about) in VERBS.items()]
    return "\n".join(["usage: python -m autograder VERB [options]", "", *lines])


def main(argv: list[str]) -> int:
    """Run a verb and return the exit status; a mistake of the user is one line and status 2."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0
    verb, *rest = argv
    if verb not in VERBS:
        print(f"error: unknown verb {verb!r}; one of: {', '.join(VERBS)}", file=sys.stderr)
        return 2
    module = VERBS[verb][0]
    try:
        run = importlib.import_module(module).main
        return int(run([verb, *rest] if module in SHARED else rest) or 0)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    except ValueError as error:
        # Our own ValueErrors speak to the user; any other is a bug and keeps its traceback.
        if not type(error).__module__.startswith(OURS):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
