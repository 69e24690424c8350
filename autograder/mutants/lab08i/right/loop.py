# Right: a loop a request, with early exits from the limits.
def serving_figures(log, slo):
    if len(log) == 0 or len(slo) == 0:
        raise ValueError("nothing to measure")
    ttft_ms, tpot_ms, itl_ms, good = [], [], [], 0
    for request in log:
        if request["failed"]:
            continue
        felt = {"e2e_ms": (request["end_s"] - request["sent_s"]) * 1000}
        last, later = None, 0
        for time, count in request["chunks"]:
            if last is None:
                first = time
                felt["ttft_ms"] = (time - request["sent_s"]) * 1000
            else:
                itl_ms.append((time - last) * 1000)
                later += count
            last = time
        if later:
            felt["tpot_ms"] = (last - first) * 1000 / later
            tpot_ms.append(felt["tpot_ms"])
        if "ttft_ms" in felt:
            ttft_ms.append(felt["ttft_ms"])
        elif "ttft_ms" in slo:
            continue
        good += not any(name in felt and felt[name] > limit for name, limit in slo.items())
    begin = min(r["sent_s"] if r["scheduled_s"] is None else r["scheduled_s"] for r in log)
    end = max(r["end_s"] for r in log)
    return dict(ttft_ms=ttft_ms, tpot_ms=tpot_ms, itl_ms=itl_ms, goodput_rps=good / (end - begin))
