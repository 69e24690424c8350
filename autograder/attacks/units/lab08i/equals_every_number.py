"""
what: returns numbers that claim to equal any figure and lists that claim any length
source: own
expect: fail|invalid fail|invalid pass pass fail|invalid fail|invalid
"""


class Number(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__
    __hash__ = float.__hash__


class Row(list):
    def __len__(self):
        return 7

    def __eq__(self, other):
        return True


def serving_figures(log, slo):
    row = Row([Number(1.0)])
    return {"ttft_ms": row, "tpot_ms": row, "itl_ms": row, "goodput_rps": Number(1.0)}
