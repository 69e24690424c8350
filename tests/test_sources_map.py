"""The source map: validated on load, checked row by row against a wheel."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from course.render import source_map
from course.render.source_map import (
    ANSWER_KEYS,
    DEFAULT_CACHE,
    DEFAULT_MAP,
    SourceMapError,
    accepted_answers,
    load,
    main,
)

REPO = "https://github.com/toy/toy"
MODULE = (
    "import torch\n\n\nclass Worker:\n    def verify(self):\n        # accept\n        return 1\n"
)

Rows = Callable[..., Path]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "cache" / "toy-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/worker.py", MODULE)
    return path


@pytest.fixture
def write_map(tmp_path: Path, wheel: Path) -> Rows:
    """A map with one release, the toy wheel, and one right row changed by the keywords."""

    def write(**changes: Any) -> Path:
        row: dict[str, Any] = {
            "id": "verify",
            "title": "The verify step",
            "release": "toy-1.0",
            "path": "toy/worker.py",
            "repo_path": "src/toy/worker.py",
            "symbol": "Worker.verify",
            "lines": [5, 7],
            "answers_for": ["verify_ms"],
        }
        row.update(changes)
        row = {key: value for key, value in row.items() if value is not None}
        release = {
            "package": "toy",
            "version": "1.0",
            "repo": REPO,
            "tag": "v1.0",
            "wheel_root": "toy",
            "python": "3.11",
            "abi": "none",
            "platform": "any",
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "megabytes": 1,
        }
        path = tmp_path / "map.yml"
        path.write_text(yaml.safe_dump({"releases": {"toy-1.0": release}, "concepts": [row]}))
        return path

    return write


def run(path: Path, *more: str) -> int:
    return main(["--map", str(path), "--cache", str(path.parent / "cache"), *more])


def test_a_right_row_holds(write_map: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write_map(), "--only", "toy-1.0") == 0
    assert "ok   verify" in capsys.readouterr().out


def test_a_stage_is_a_part_of_its_symbol(write_map: Rows) -> None:
    assert run(write_map(lines=[6, 7], stage="# accept")) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"path": "toy/gone.py", "repo_path": "toy/gone.py"}, "the wheel has no file toy/gone.py"),
        ({"symbol": "Worker.verifies"}, "toy/worker.py defines no Worker.verifies"),
        ({"symbol": "verify"}, "toy/worker.py defines no verify"),
        ({"lines": [6, 8]}, "says 6-8, Worker.verify is at 5-7"),
        ({"lines": [4, 7]}, "says 4-7"),
        ({"lines": [5, 6]}, "says 5-6"),
        ({"lines": [7, 7], "stage": "# accept"}, "line 7 does not hold the stage text"),
        ({"lines": [4, 6], "stage": "class"}, "4-6 is not inside Worker.verify"),
    ],
)
def test_a_wrong_row_fails_by_name(
    write_map: Rows, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], reason: str
) -> None:
    assert run(write_map(**changes)) == 1
    shown = capsys.readouterr()
    assert f": {reason}" in shown.out and "BAD  verify " in shown.out
    assert shown.err == "1 bad rows: verify\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": "toy-2.0"}, "concept 'verify': unknown release 'toy-2.0'"),
        ({"lines": [7, 5]}, "concept 'verify': lines [7, 5] are not in order"),
        ({"lines": "5-7"}, "concept 'verify': lines must be [first, last]"),
        ({"symbol": None}, "concept 'verify': missing keys ['symbol']"),
        ({"symbol": 3}, "concept 'verify': symbol must be text"),
        ({"answer_for": ["verify_ms"]}, "concept 'verify': unknown keys ['answer_for']"),
        (
            {"answers_for": ["verify"]},
            "concept 'verify': answers_for must be a list",
        ),
        ({"answers_for": "verify_ms"}, "concept 'verify': answers_for must be a list of cond"),
        ({"path": "other/worker.py"}, "concept 'verify': path must start with toy/"),
        ({"repo_path": "src/toy/other.py"}, "concept 'verify': repo_path must end with path"),
        ({"seed": f"{REPO}/blob/main/a.py"}, "concept 'verify': seed must be a commit permalink"),
    ],
)
def test_a_malformed_row_is_a_user_error(
    write_map: Rows, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    assert run(write_map(**changes)) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_unreadable_maps_and_unknown_releases_are_user_errors(
    write_map: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write_map(), "--only", "toy-3.0") == 2
    assert "unknown release 'toy-3.0'; choose toy-1.0" in capsys.readouterr().err
    assert run(tmp_path / "none.yml") == 2
    (tmp_path / "map.yml").write_text("releases: [")
    assert run(tmp_path / "map.yml") == 2
    for text in ("concepts: []", "concepts:\nreleases:\n", "- one\n", ""):
        (tmp_path / "map.yml").write_text(text)
        assert run(tmp_path / "map.yml") == 2
    assert capsys.readouterr().err.count("error: ") == 6


def test_ids_are_unique(write_map: Rows) -> None:
    path = write_map()
    raw = yaml.safe_load(path.read_text())
    raw["concepts"] *= 2
    path.write_text(yaml.safe_dump(raw))
    with pytest.raises(SourceMapError, match="'verify': the id is used twice"):
        load(path)


def test_a_damaged_wheel_is_downloaded_again(
    write_map: Rows, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = write_map(), wheel.read_bytes()
    wheel.write_bytes(whole[:-9])
    calls = []

    def download(release: source_map.Release, cache: Path) -> None:
        calls.append(release.name)
        (cache / wheel.name).write_bytes(whole)

    monkeypatch.setattr(source_map, "_pip_download", download)
    assert run(path) == run(path) == 0
    assert calls == ["toy-1.0"]


def test_a_download_with_another_checksum_is_refused(
    write_map: Rows,
    wheel: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_map()
    wheel.write_bytes(b"other")
    monkeypatch.setattr(source_map, "_pip_download", lambda release, cache: None)
    assert run(path) == 2
    assert "does not have the checksum" in capsys.readouterr().err


def test_the_committed_map_answers_every_key_from_both_engines() -> None:
    committed = load(DEFAULT_MAP)
    answers = accepted_answers(committed)
    assert answers.keys() == set(ANSWER_KEYS)
    for key, symbols in answers.items():
        assert len(symbols) >= 3, key
        engines = {c.release for c in committed.concepts if key in c.answers_for}
        assert engines == committed.releases.keys(), key


def test_no_committed_answer_is_right_for_everything() -> None:
    widest = max(len(c.answers_for) for c in load(DEFAULT_MAP).concepts)
    assert widest < len(ANSWER_KEYS) - 1


def test_the_committed_map_keeps_every_link_of_the_seed() -> None:
    seeds = {c.seed for c in load(DEFAULT_MAP).concepts if c.seed}
    ends = ("#L30-L316", "#L489-L1508", "#L168-L1600", "dspark_worker_v2.py", "v1/spec_decode")
    assert all(any(seed.endswith(end) for seed in seeds) for end in ends)
    assert len(seeds) == len(ends)


def test_the_page_lists_every_row_and_gives_no_answer_away() -> None:
    committed = load(source_map.DEFAULT_MAP)
    page = source_map.as_markdown(committed)
    rows = [line for line in page.splitlines() if line.startswith("| ") and "](https" in line]
    assert len(rows) == len(committed.concepts)
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    for concept in committed.concepts:
        assert f"[`{concept.symbol}`]({committed.permalink(concept)})" in page
    assert not any(f"`{key}`" in page for key in source_map.ANSWER_KEYS)
    kept = [replace(concept, answers_for=()) for concept in committed.concepts]
    assert source_map.as_markdown(replace(committed, concepts=tuple(kept))) == page


def test_permalinks_point_into_the_release() -> None:
    committed = load(DEFAULT_MAP)
    first = committed.concepts[0]
    assert committed.permalink(first) == (
        "https://github.com/sgl-project/sglang/blob/v0.5.18/"
        "python/sglang/srt/speculative/spec_info.py#L31-L306"
    )


@pytest.mark.slow
def test_every_committed_row_holds_in_the_released_wheels() -> None:
    committed = load(DEFAULT_MAP)
    try:
        for release in committed.releases.values():
            source_map.fetch(release, DEFAULT_CACHE)
    except SourceMapError as error:
        pytest.skip(str(error))
    assert source_map.check(committed, DEFAULT_CACHE) == []
