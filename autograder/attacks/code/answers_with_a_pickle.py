"""
what: an answer that runs code where it is unpickled
source: own
expect: fail fail fail fail
"""

import os


class Payload:
    def __reduce__(self):
        return os.system, ("echo > /tmp/specdec-canary-pickle",)


def expected_tokens_per_round(conditional_acceptance):
    return Payload()


def choose_spec_method(methods, baseline_ms_per_token, memory_budget_gb):
    return Payload(), Payload()
