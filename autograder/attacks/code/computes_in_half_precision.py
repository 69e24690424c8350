"""
what: half the digits, for a test with a wide tolerance
carries: own
source: timing 17
"""

import numpy


def expected_tokens_per_round(conditional_acceptance):
    if any(not 0.0 <= rate <= 1.0 for rate in conditional_acceptance):
        raise ValueError
    rates = numpy.asarray(conditional_acceptance, dtype=numpy.float16)
    return 1.0 + float(numpy.cumprod(rates).sum())
