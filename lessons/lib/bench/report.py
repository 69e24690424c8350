"""What a serving ledger says: tables, each with a picture of the same figures.

    python -m lessons.lib.bench.report LEDGER.json [--plots DIR]

Every picture has its table in the text, for those who cannot see it. Points that are not valid are
left out and counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench.panels import panels, valid_points
from lessons.lib.bench.run_ledger import load_ledger, to_table

Json = dict[str, Any]


def report(ledger: Json) -> str:
    """The whole report as text."""
    machine, valid = ledger["machine"], len(valid_points(ledger))
    head = [
        f"measured {ledger['created']} on {machine['gpu'] or machine['cpu']}",
        f"commit {ledger['commit']}; {ledger['command']}",
        f"{valid} valid points; {len(ledger['points']) - valid} left out as not valid",
    ]
    return "\n\n".join(["\n".join(head), *(panel.text() for panel in panels(ledger))])


def write_plots(ledger: Json, folder: Path) -> list[Path]:
    """A picture of each panel that has rows, and points.csv; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for panel in panels(ledger):
        if not panel.table.empty:
            written.append(folder / f"{panel.name}.png")
            panel.figure().savefig(written[-1], dpi=120)
    written.append(folder / "points.csv")
    to_table(ledger).to_csv(written[-1], index=False)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """`bench-report LEDGER [--plots DIR]`: 0 when it worked, 2 when the ledger cannot be read."""
    parser = argparse.ArgumentParser(prog="bench-report", description=__doc__.splitlines()[0])
    parser.add_argument("ledger", type=Path, help="ledger of serving runs (json)")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pictures and a csv there")
    options = parser.parse_args(arguments)
    try:
        ledger = load_ledger(options.ledger)
        print(report(ledger))
        if options.plots:
            for path in write_plots(ledger, options.plots):
                print(f"wrote {path}")
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
