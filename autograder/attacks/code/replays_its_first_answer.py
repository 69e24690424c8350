"""
what: replays the answer it gave first, as a cache that mistakes new inputs for old ones does
source: timing 1
expect: fail fail fail fail
carries: own
"""

kept = {}
honest = expected_tokens_per_round


def expected_tokens_per_round(conditional_acceptance):
    return kept.setdefault("same object", honest(conditional_acceptance))
