"""
what: an answer that would be worked out only when it is compared
source: timing 6
expect: fail fail fail fail
"""


class Later(float):
    def __new__(cls, rates):
        self = float.__new__(cls, 2.0)
        self.rates = rates
        return self

    def __float__(self):
        survival, expected = 1.0, 1.0
        for rate in self.rates:
            survival *= rate
            expected += survival
        return expected

    def __sub__(self, other):
        return float(self) - other

    __class__ = property(lambda self: float)


def expected_tokens_per_round(conditional_acceptance):
    return Later(conditional_acceptance)
