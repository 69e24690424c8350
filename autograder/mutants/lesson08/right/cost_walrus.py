# Right: generator with an assignment expression; returns a list.
def expected_tokens_per_round(conditional_acceptance):
    if not all(0.0 <= rate <= 1.0 for rate in conditional_acceptance):
        raise ValueError("acceptance probability out of range")
    survival = 1.0
    return 1.0 + sum((survival := survival * rate) for rate in conditional_acceptance)


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    rated = (
        [method["name"], tokens * baseline_ms_per_token / round_ms]
        for method in methods
        if method["extra_memory_gb"] <= memory_budget_gb
        and (tokens := expected_tokens_per_round(method["conditional_acceptance"]))
        and (round_ms := method["draft_ms"] + method["verify_ms"] + method["overhead_ms"])
    )
    return max([["baseline", 1.0], *rated], key=lambda pair: pair[1])
