# Right: groups the runs by load and block first.
def find_faults(points):
    if not points:
        raise ValueError("no runs")
    groups = {}
    for point in points:
        groups.setdefault((point["load"], point["block"]), []).append(point)
    found = []
    for group in groups.values():
        base = [point for point in group if point["method"] == "baseline"]
        if not base:
            found.append("no-baseline")
        for point in group:
            found += ["baseline-differs"] * any(b["setup"] != point["setup"] for b in base)
            found += ["different-requests"] * (
                len(base) > 0 and base[0]["fingerprint"] != point["fingerprint"]
            )
            found += ["failed-requests"] * (point["num_failed"] != 0)
            found += ["repeated-prompts"] * (point["num_requests"] != point["num_distinct"])
    return sorted(set(found))
