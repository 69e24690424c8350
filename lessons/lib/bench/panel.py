"""One part of a report on a serving ledger: a table, and a picture of the same figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Json = dict[str, Any]
Points = Sequence[Json]


@dataclass(frozen=True)
class Panel:
    """A table, sentences that follow from it, and how to draw it; no rows where nothing fits."""

    name: str
    title: str
    table: pd.DataFrame
    notes: tuple[str, ...]
    draw: Callable[[Axes, pd.DataFrame], None]

    def text(self) -> str:
        """The panel for reading."""
        if self.table.empty:
            return f"{self.title}\n  not measured"
        body = self.table.to_string(index=False, float_format="{:.4g}".format, na_rep="-")
        return "\n".join([self.title, body, *self.notes])

    def figure(self) -> Figure:
        """The panel for looking at."""
        picture = Figure(figsize=(7, 4), layout="constrained")
        axes = picture.add_subplot()
        self.draw(axes, self.table)
        axes.set_title(self.title)
        if axes.get_legend_handles_labels()[0]:
            picture.legend(loc="outside right upper")
        return picture
