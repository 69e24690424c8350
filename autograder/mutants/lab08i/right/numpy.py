# Right: gaps and percentiles' raw values by numpy.
import numpy as np


def serving_figures(log, slo):
    if not log or not slo:
        raise ValueError("a log needs a request, an SLO a limit")
    rows = []
    for request in (r for r in log if not r["failed"]):
        times = np.array([t for t, _ in request["chunks"]])
        counts = np.array([n for _, n in request["chunks"]])
        row = {"gaps": (np.diff(times) * 1000).tolist() if len(times) else []}
        row["e2e_ms"] = 1000 * (request["end_s"] - request["sent_s"])
        row["ttft_ms"] = float(1000 * (times[0] - request["sent_s"])) if len(times) else None
        many = len(times) > 1
        row["tpot_ms"] = float(1000 * (times[-1] - times[0]) / counts[1:].sum()) if many else None
        rows.append(row)
    good = sum(
        all(
            (name != "ttft_ms") if row[name] is None else row[name] <= limit
            for name, limit in slo.items()
        )
        for row in rows
    )
    starts = [r["scheduled_s"] if r["scheduled_s"] is not None else r["sent_s"] for r in log]
    return {
        "ttft_ms": [row["ttft_ms"] for row in rows if row["ttft_ms"] is not None],
        "tpot_ms": [row["tpot_ms"] for row in rows if row["tpot_ms"] is not None],
        "itl_ms": [gap for row in rows for gap in row["gaps"]],
        "goodput_rps": good / (max(r["end_s"] for r in log) - min(starts)),
    }
