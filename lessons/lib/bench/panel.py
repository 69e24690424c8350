"""One part of a report on a serving ledger: a table, and a picture of the same figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from cycler import cycler
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Json = dict[str, Any]
Points = Sequence[Json]

_COLOURS = cycler(
    color=[colormaps["tab20"](n) for n in range(20)]
)  # a sweep has more methods than the usual ten
_LINE_INCHES = 0.2  # of a label


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
        """The panel for looking at, as high as its labels need."""
        picture = Figure(layout="constrained")
        axes = picture.add_subplot()
        axes.set_prop_cycle(_COLOURS)
        self.draw(axes, self.table)
        axes.set_title(self.title, fontsize="medium")
        labels = axes.get_legend_handles_labels()[1]
        if labels:
            picture.legend(loc="outside right upper")
        longest = max(len(labels), len(axes.get_yticks()))
        picture.set_size_inches(8, max(4.0, 1 + _LINE_INCHES * longest))
        return picture
