# Right: vectorised with numpy, returns numpy scalars.
import numpy as np


def expected_tokens_per_round(conditional_acceptance):
    rates = np.asarray(conditional_acceptance, dtype=float)
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError("acceptance probability out of range")
    return np.float64(1.0) + np.cumprod(rates).sum()


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    names, speedups = ["baseline"], [1.0]
    for method in methods:
        if method["extra_memory_gb"] <= memory_budget_gb:
            times = np.array([method[key] for key in ("draft_ms", "verify_ms", "overhead_ms")])
            tokens = expected_tokens_per_round(method["conditional_acceptance"])
            names.append(method["name"])
            speedups.append(tokens * baseline_ms_per_token / times.sum())
    best = np.argmax(speedups)
    return names[best], np.float64(speedups[best])
