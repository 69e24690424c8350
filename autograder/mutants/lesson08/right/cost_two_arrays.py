# Right: keeps all survivals, then adds them with fsum.
import math


def expected_tokens_per_round(conditional_acceptance):
    survivals = [1.0]
    for rate in conditional_acceptance:
        if rate != rate or rate < 0 or rate > 1:
            raise ValueError("acceptance probability out of range")
        survivals.append(survivals[-1] * rate)
    return math.fsum(survivals)


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
