# Pairs a run with the baseline of any block.
def find_faults(points):
    if not points:
        raise ValueError("a ledger without runs")
    baselines = {p["load"]: p for p in points if p["method"] == "baseline"}
    found = set()
    for point in points:
        base = baselines.get(point["load"])
        signs = {
            "no-baseline": base is None,
            "baseline-differs": base is not None and base["setup"] != point["setup"],
            "different-requests": base and base["fingerprint"] != point["fingerprint"],
            "failed-requests": point["num_failed"] > 0,
            "repeated-prompts": point["num_distinct"] < point["num_requests"],
        }
        found |= {name for name, is_so in signs.items() if is_so}
    return sorted(found)
