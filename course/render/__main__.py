"""`python -m course.render build | lint | measured | check-sources`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from course.render import lint, quarto, site

ROOT = Path()  # run from the repository's root, so that messages name files as a reader sees them


def main(argv: list[str] | None = None) -> int:
    """Run one verb; a user's error is one line on stderr and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["check-sources"]:
        from course.render import source_map

        return source_map.main(arguments[1:])
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m course.render", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    build = verbs.add_parser("build", help="build the site of the student and of the instructor")
    build.add_argument("--out", type=Path, default=ROOT / "build/site", help="default: build/site")
    build.add_argument("--edition", choices=[*site.EDITIONS, "both"], default="both")
    build.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    build.set_defaults(run=_build)
    check = verbs.add_parser("lint", help="check the sources of lessons and course pages")
    check.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    check.set_defaults(run=_lint)
    fill = verbs.add_parser("measured", help="fill sentences with figures of ledgers")
    fill.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    fill.set_defaults(run=_measured)
    verbs.add_parser("check-sources", help="verify course/source_map.yml against released wheels")
    return parser


def _build(options: argparse.Namespace) -> int:
    renderer = os.environ.get("RENDERER", "pandoc")
    if renderer == "quarto":
        quarto.render(options.root, options.out)
        return 0
    if renderer != "pandoc":
        raise ValueError(f"RENDERER={renderer} is not known; use pandoc (the default) or quarto")
    editions = site.EDITIONS if options.edition == "both" else (options.edition,)
    written = site.build(options.root, options.out, editions, progress=True)
    print(f"{written} pages written; open {options.out}/index.html")
    return 0


def _measured(options: argparse.Namespace) -> int:
    from course.render import measured  # imports torch, which the other verbs do without

    for path in measured.fill(options.root):
        print(f"{path}: figures written")
    return 0


def _lint(options: argparse.Namespace) -> int:
    problems = lint.lint_all(options.root)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        print("lessons: no problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
