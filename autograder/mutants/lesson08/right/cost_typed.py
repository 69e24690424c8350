# Right: annotated rewrite with helpers of its own.
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    name: str = "baseline"
    speedup: float = 1.0


def expected_tokens_per_round(conditional_acceptance: Sequence[float]) -> float:
    """Tokens per round, bonus counted."""
    survival: float = 1.0
    total: float = 1.0
    for position, rate in enumerate(conditional_acceptance, start=1):
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"rate {rate} at position {position} is out of range")
        survival *= rate
        total += survival
    return total


def rate_method(method: dict, baseline_ms: float) -> Choice:
    round_ms = sum(method[phase] for phase in ("draft_ms", "verify_ms", "overhead_ms"))
    tokens = expected_tokens_per_round(method["conditional_acceptance"])
    return Choice(method["name"], tokens / (round_ms / baseline_ms))


def choose_spec_method(
    methods: Sequence[dict], baseline_ms_per_token: float, memory_budget_gb: float
) -> tuple[str, float]:
    best = Choice()
    for method in methods:
        if method["extra_memory_gb"] <= memory_budget_gb:
            candidate = rate_method(method, baseline_ms_per_token)
            best = candidate if candidate.speedup > best.speedup else best
    return best.name, best.speedup
