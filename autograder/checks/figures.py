"""Figures of real methods, measured by the grader on its own engine and device.

Measured once per machine, engine source and day, and kept in a file, so that a class of students
is judged on the same figures without measuring again.
"""

import contextlib
import datetime
import hashlib
import json
import os
import platform
import random
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lessons.lib.checks.cost_model import Method, choose, is_clear

REPO = Path(__file__).parents[2]
CACHE = REPO / "build" / "cache" / "live_figures.json"
DEPTHS = (2, 4, 8)
KINDS = ("json", "copy")
MAX_NEW_TOKENS = 32
NUM_CASES = 12
RACE = "GRADER_RACE"
LAYOUT = "2"  # raise when the meaning of what is kept changes


class FiguresError(RuntimeError):
    """Nothing could be measured here; the message says why."""


@dataclass(frozen=True)
class Figures:
    """One measurement. Times in ms, memory in GB (1e9 bytes).

    `can_race`: the methods can be run on this machine, and the instructor has the time.
    """

    device: str
    baseline_ms: float
    methods: list[Method]
    can_race: bool = False

    @property
    def all_fit_gb(self) -> float:
        """A budget into which every measured method fits, its edge included."""
        return max(method["extra_memory_gb"] for method in self.methods)

    def cases(self, rng: random.Random) -> list[tuple[float, float]]:
        """(baseline_ms, budget_gb) pairs: as measured, at each method's own memory, and drawn.

        Those in which two candidates are too close to call are left out.
        """
        budgets = [method["extra_memory_gb"] for method in self.methods]
        cases = [(self.baseline_ms, budget) for budget in (self.all_fit_gb, 0.0, *budgets)]
        for _ in range(NUM_CASES):
            baseline = self.baseline_ms * rng.uniform(0.3, 3.0)
            cases.append((baseline, rng.choice((*budgets, rng.uniform(0, 2 * self.all_fit_gb)))))
        return [case for case in cases if is_clear(self.methods, *case)]

    def best(self) -> tuple[str, float]:
        """The choice on the figures as measured, without a memory limit."""
        return choose(self.methods, self.baseline_ms, self.all_fit_gb)


def measured(cache: Path | None = None) -> Figures:
    """The figures of today, from `cache` or measured now. Raises FiguresError.

    With GRADER_RACE=no in the environment nobody races: the speedup is that of the figures.
    """
    cache = cache or CACHE
    key = _key()
    figures = _read(cache, key)
    if figures is None:
        figures = _measure()
        _write(cache, {"key": key, **asdict(figures)})
    return replace(figures, can_race=False) if os.environ.get(RACE) == "no" else figures


def _key() -> dict[str, str]:
    """What a kept measurement must share with now to count."""
    digest = hashlib.sha256()
    for path in sorted([*REPO.glob("kernels/**/*.py"), *REPO.glob("lessons/lib/**/*.py")]):
        digest.update(path.read_bytes())
    today = datetime.date.today().isoformat()
    engine = digest.hexdigest()[:16]
    return {"machine": platform.node(), "engine": engine, "day": today, "layout": LAYOUT}


def _read(cache: Path, key: dict[str, str]) -> Figures | None:
    """A kept measurement of the same key; a damaged file counts as none."""
    try:
        kept: dict[str, Any] = json.loads(cache.read_text(encoding="utf-8"))
        if kept.pop("key") == key:
            return Figures(**kept)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return None


def _write(cache: Path, content: dict[str, Any]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=cache.parent, prefix=".figures-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(name, cache)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _measure() -> Figures:
    """Target-only and n-gram at several depths, interleaved, on this machine's best device."""
    from kernels.runtime import InputError, probe
    from lessons.lib.bench.run import measure_methods
    from lessons.lib.bench.workload import load_prompts
    from lessons.lib.engine import Engine
    from lessons.lib.model.loader import load_model

    try:
        model, tokenizer = load_model()
        prompts = [load_prompts(kinds=(kind,))[0] for kind in KINDS]
        rows = measure_methods(
            Engine(model, tokenizer),
            prompts,
            depths=DEPTHS,
            max_new_tokens=MAX_NEW_TOKENS,
            progress=False,
        )
    except (InputError, OSError) as error:
        raise FiguresError(f"the grader could not measure: {error}") from error
    machine = probe()
    name = machine.gpu if model.device.type == "cuda" else machine.cpu
    baseline, *methods = rows
    return Figures(
        device=f"{model.device.type} ({name})",
        baseline_ms=baseline.ms_per_token,
        methods=[method.as_method() for method in methods],
        can_race=True,
    )
