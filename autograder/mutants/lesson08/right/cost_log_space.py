# Right: sums of logarithms, with a rate of 0 handled.
import math


class RateError(ValueError):
    pass


def expected_tokens_per_round(conditional_acceptance):
    log_survival, expected = 0.0, 1.0
    for rate in conditional_acceptance:
        if math.isnan(rate) or rate < 0.0 or rate > 1.0:
            raise RateError(f"{rate} is no probability")
        log_survival += math.log(rate) if rate > 0.0 else -math.inf
        expected += math.exp(log_survival)
    return expected


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
