"""Read the corpus, and make a submission from an attack.

A header is the file's docstring, a key and its text a line:

what     one sentence
source   where it was seen: a row of `sources` in waiting.yml, or "own"
carries  the plain answer that the attack is added to: wrong (default), right, or own where it is
         itself an answer, to be judged on its merits
place    of a code attack: behind or before the answer in its cell, above (a cell of its own), map
expect   the verdicts of main, boundary, source_map and live (`fail|invalid`: either),
         or `unreadable`
needs    bubblewrap, where process limits alone do not stop it: it is not run without
slow     true, where the grader has to wait for a time limit
"""

import ast
import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

HERE = Path(__file__).parent
FOLDERS = ("code", "notebook", "files")
UNIT = "lesson08"
ANSWER_CELL, MAP_CELL = "acceptance_cost_model", "source_objects"
CHECKS = {"main": 2.0, "boundary": 1.0, "source_map": 1.0, "live": 0.0}
PLACES = ("behind", "before", "above", "map")
KEYS = {"what", "source", "carries", "place", "expect", "needs", "slow"}
EXPECTED_OF_PLAIN = {"wrong": "fail fail fail fail", "right": "pass pass fail pass"}
EXPECTED_OF_PLAIN["own"] = EXPECTED_OF_PLAIN["wrong"]
# What the student would earn with the same answer and no attack.
EARNED_BY_PLAIN = {"wrong": 0.0, "right": 3.0, "own": 0.0}

CHOOSE = """
def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    best = ("baseline", 1.0)
    for method in methods:
        if method["extra_memory_gb"] > memory_budget_gb:
            continue
        produced = expected_tokens_per_round(method["conditional_acceptance"])
        round_ms = method["draft_ms"] + method["verify_ms"] + method["overhead_ms"]
        speedup = produced * baseline_ms_per_token / round_ms
        if speedup > best[1]:
            best = (method["name"], speedup)
    return best
"""
WRONG = "def expected_tokens_per_round(conditional_acceptance):\n    return 2.0\n"
RIGHT = """
def expected_tokens_per_round(conditional_acceptance):
    survival, expected = 1.0, 1.0
    for probability in conditional_acceptance:
        if not 0.0 <= probability <= 1.0:
            raise ValueError("acceptance probability out of range")
        survival *= probability
        expected += survival
    return expected
"""
PLAIN = {"wrong": WRONG + CHOOSE, "right": RIGHT + CHOOSE, "own": RIGHT + CHOOSE}


class CorpusError(ValueError):
    """An attack's header cannot be used; the message names the file."""


@dataclass(frozen=True)
class Attack:
    """One attack. `expect` holds a verdict for each of CHECKS, or nothing when unreadable."""

    id: str  # "code/abs_is_zero"
    path: Path
    what: str
    source: str
    carries: str
    place: str
    expect: tuple[str, ...]
    needs: str
    is_slow: bool

    @property
    def kind(self) -> str:
        return self.id.partition("/")[0]

    @property
    def points(self) -> float:
        """What it must get: the points of the checks that it passes honestly."""
        if not self.expect:
            return 0.0
        worth = zip(self.expect, CHECKS.values(), strict=True)
        return sum(points for verdict, points in worth if verdict == "pass")

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def load() -> list[Attack]:
    """The whole corpus in reading order. Raises CorpusError."""
    return [read_attack(path) for name in FOLDERS for path in sorted((HERE / name).glob("*.py"))]


def read_attack(path: Path) -> Attack:
    """An attack from its header; nothing of it is run. Raises CorpusError."""
    name, header = f"{path.parent.name}/{path.stem}", read_header(path)
    carries, place = header.get("carries", "wrong"), header.get("place", "behind")
    if carries not in PLAIN or place not in PLACES:
        raise CorpusError(f"{path}: carries {carries!r} or place {place!r} is unknown")
    expect = header.get("expect", EXPECTED_OF_PLAIN[carries]).split()
    if expect != ["unreadable"] and len(expect) != len(CHECKS):
        raise CorpusError(f"{path}: expect needs {len(CHECKS)} verdicts, or `unreadable`")
    return Attack(
        id=name,
        path=path,
        what=header["what"],
        source=header["source"],
        carries=carries,
        place=place,
        expect=() if expect == ["unreadable"] else tuple(expect),
        needs=header.get("needs", ""),
        is_slow=header.get("slow") == "true",
    )


def read_header(path: Path) -> dict[str, str]:
    """The keys and texts of a file's docstring. Raises CorpusError."""
    try:
        lines = (ast.get_docstring(ast.parse(path.read_bytes())) or "").splitlines()
        header = dict(line.split(": ", 1) for line in lines)
    except (SyntaxError, ValueError) as error:
        raise CorpusError(f"{path}: no header: {error}") from None
    if not {"what", "source"} <= set(header) <= KEYS:
        raise CorpusError(f"{path}: the header needs what and source, and may hold {sorted(KEYS)}")
    return header


def apply_to_notebook(attack: Attack, notebook: NotebookNode) -> None:
    """Turn a released notebook into what the attacker hands in."""
    cells = {cell["id"]: cell for cell in notebook.cells}
    cells[ANSWER_CELL].source = PLAIN[attack.carries]
    if attack.kind == "notebook":
        program(attack)(notebook, cells)
    elif attack.kind == "code":
        put_code(attack, notebook, cells)


def put_code(attack: Attack, notebook: NotebookNode, cells: dict[str, NotebookNode]) -> None:
    """Put an attack's code where its header says."""
    plain = cells[ANSWER_CELL].source
    if attack.place == "map":
        cells[MAP_CELL].source = attack.text
    elif attack.place == "above":
        place = notebook.cells.index(cells[ANSWER_CELL])
        notebook.cells.insert(place, new_code_cell(attack.text))
    else:
        parts = [plain, attack.text] if attack.place == "behind" else [attack.text, plain]
        cells[ANSWER_CELL].source = "\n\n".join(parts)


def apply_to_folder(attack: Attack, folder: Path) -> None:
    """Change the folder that holds the notebook."""
    if attack.kind == "files":
        program(attack)(folder)


def program(attack: Attack) -> Callable[..., None]:
    """The function `attack` of a file that is ours to run."""
    spec = importlib.util.spec_from_file_location(attack.path.stem, attack.path)
    if spec is None or spec.loader is None:
        raise CorpusError(f"{attack.path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attack


@functools.cache
def waiting() -> dict[str, Any]:
    """What has no form here yet, and the meaning of `source`: the data of waiting.yml."""
    return yaml.safe_load((HERE / "waiting.yml").read_text(encoding="utf-8"))
