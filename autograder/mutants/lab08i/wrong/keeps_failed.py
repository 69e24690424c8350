# Counts requests that failed as if they had finished.
def serving_figures(log, slo):
    if not log or not slo:
        raise ValueError("a log needs a request, an SLO a limit")
    ttft_ms, tpot_ms, itl_ms, good = [], [], [], 0
    for request in log:
        times = [time for time, _ in request["chunks"]]
        later = sum(count for _, count in request["chunks"][1:])
        ttft = [1000 * (times[0] - request["sent_s"])] if times else []
        tpot = [1000 * (times[-1] - times[0]) / later] if later else []
        ttft_ms, tpot_ms = ttft_ms + ttft, tpot_ms + tpot
        itl_ms += [1000 * (after - before) for before, after in zip(times, times[1:])]
        e2e = 1000 * (request["end_s"] - request["sent_s"])
        felt = {"ttft_ms": ttft or [math.inf], "tpot_ms": tpot, "e2e_ms": [e2e]}
        good += all(value <= slo[name] for name in slo for value in felt[name])
    starts = [r["sent_s"] if r["scheduled_s"] is None else r["scheduled_s"] for r in log]
    goodput = good / (max(r["end_s"] for r in log) - min(starts))
    return {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "itl_ms": itl_ms, "goodput_rps": goodput}
