"""What a serving ledger says: tables, each with a picture of the same figures.

Every picture has its table in the text, for those who cannot see it. Points that are not valid are
left out and counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernels.runtime import InputError
from lessons.lib.bench.panels import panels, valid_points
from lessons.lib.bench.run_ledger import to_table

Json = dict[str, Any]


def report(ledger: Json) -> str:
    """The whole report as text."""
    machine, valid = ledger["machine"], len(valid_points(ledger))
    head = [
        f"measured {ledger['created']} on {machine['gpu'] or machine['cpu']}",
        f"commit {ledger['commit']}; {ledger['command']}",
        f"{valid} valid points; {len(ledger['points']) - valid} left out as not valid",
    ]
    absent = ledger.get("not_measured", {})
    head += [f"{name} was not measured: {reason}" for name, reason in absent.items()]
    peers = sorted({p["method"] for p in ledger["points"] if p["setup"].get("is_peer")})
    if peers:
        head.append(f"{', '.join(peers)}: other software, so a ratio is not speculation's gain")
    return "\n\n".join(["\n".join(head), *(panel.text() for panel in panels(ledger))])


def write_plots(ledger: Json, folder: Path) -> list[Path]:
    """A picture of each panel that has rows, and points.csv; returns the paths."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for panel in panels(ledger):
            if not panel.table.empty:
                written.append(folder / f"{panel.name}.png")
                panel.figure().savefig(written[-1], dpi=120)
        written.append(folder / "points.csv")
        to_table(ledger).to_csv(written[-1], index=False)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
    return written
