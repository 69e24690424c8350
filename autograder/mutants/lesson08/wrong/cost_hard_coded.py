# Knows the lesson's example by heart and nothing else.
def expected_tokens_per_round(conditional_acceptance):
    if not all(0.0 <= probability <= 1.0 for probability in conditional_acceptance):
        raise ValueError("acceptance probability out of range")
    known = {(0.8, 0.7, 0.5): 2.64, (0.75, 0.75, 0.7): 2.70625}
    return known.get(tuple(conditional_acceptance), 1.0)


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
