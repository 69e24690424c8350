"""
what: returns nodes that claim to be equal to every other and within all bounds
source: own
expect: fail|invalid fail|invalid fail|invalid fail|invalid
"""


class Any(int):
    def __eq__(self, other):
        return True

    def __lt__(self, other):
        return True

    def __le__(self, other):
        return True

    __hash__ = int.__hash__


class Sum(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__
    __hash__ = float.__hash__


def grow_beam(parents, log_probs, width):
    return [Sum(0) for _ in parents], [Any(len(parents) - 1)]


def rerank(parents, scores, num_nodes):
    return [Any(0)] * num_nodes, [Any(-1)] * num_nodes
