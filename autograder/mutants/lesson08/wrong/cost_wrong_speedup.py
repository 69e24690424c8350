# Chooses rightly but returns tokens per round as the speedup.
def expected_tokens_per_round(conditional_acceptance):
    survival = 1.0
    expected_accepted = 0.0
    for probability in conditional_acceptance:
        if not 0.0 <= probability <= 1.0:
            raise ValueError("acceptance probability out of range")
        survival *= probability
        expected_accepted += survival
    return 1.0 + expected_accepted


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
            tokens = produced
    return best if best[0] == "baseline" else (best[0], tokens)
