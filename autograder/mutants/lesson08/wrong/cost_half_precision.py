# Computes in float32, which is not precise enough for a cost model.
import numpy as np


def expected_tokens_per_round(conditional_acceptance):
    rates = np.array(conditional_acceptance, dtype=np.float64)
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("acceptance probability out of range")
    return 1.0 + np.cumprod(rates.astype(np.float32)).sum()


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    best = ("baseline", 1.0)
    for method in methods:
        if method["extra_memory_gb"] > memory_budget_gb:
            continue
        produced = expected_tokens_per_round(method["conditional_acceptance"])
        round_ms = method["draft_ms"] + method["verify_ms"] + method["overhead_ms"]
        speedup = produced * baseline_ms_per_token / round_ms
        if speedup > best[1]:
            best = (method["name"], speedup)
    return best
