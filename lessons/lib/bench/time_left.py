"""How long a sweep still takes, from what its points took so far and not from their number."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lessons.lib.bench.run_ledger import Task, point_key

Json = dict[str, Any]


class TimeLeft:
    """Seconds of the points so far by method and load; a point under one load tells little of
    another. Points of an earlier run of the same ledger count."""

    def __init__(self, points: Sequence[Json]) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        for point in points:
            self.note(point)

    def note(self, point: Json) -> None:
        """One more point is done."""
        method, load, *_ = point_key(point)
        if "wall_s" in point:
            self._seconds[method, load].append(point["wall_s"])

    def seconds(self, tasks: Sequence[Task]) -> float | None:
        """Of these tasks; None before the first point. A method and load that did not run yet is
        taken for what others took there, and an unknown load for the mean of all."""
        if not self._seconds:
            return None
        by_load: dict[str, list[float]] = defaultdict(list)
        for (_, load), found in self._seconds.items():
            by_load[load] += found
        everything = statistics.fmean(second for found in by_load.values() for second in found)
        return sum(
            statistics.fmean(
                self._seconds.get(task.key[:2]) or by_load.get(task.key[1]) or [everything]
            )
            for task in tasks
        )

    def describe(self, tasks: Sequence[Task]) -> str:
        """For a progress bar; it says when it cannot know, because a load has not run yet."""
        seconds = self.seconds(tasks)
        if seconds is None:
            return "time left unknown before the first point"
        loads = {load for _, load in self._seconds}
        is_known = all(task.key[1] in loads for task in tasks)
        time = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f"about {time} left" if is_known else f"perhaps {time} left, some loads are to come"
