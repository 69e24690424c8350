# Uses powers of the mean rate: positions have different rates.
def expected_tokens_per_round(conditional_acceptance):
    if not all(0.0 <= probability <= 1.0 for probability in conditional_acceptance):
        raise ValueError("acceptance probability out of range")
    if not conditional_acceptance:
        return 1.0
    mean = sum(conditional_acceptance) / len(conditional_acceptance)
    return sum(mean**k for k in range(len(conditional_acceptance) + 1))


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
