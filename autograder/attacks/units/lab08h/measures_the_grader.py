"""
what: returns a size that claims to be every size, so that each step seems to have its own graph
source: own
expect: fail|invalid fail|invalid fail|invalid fail|invalid
"""


class Any(int):
    def __ge__(self, other):
        return True

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def fit_buckets(sizes, graph_ms, eager_ms, graph_mib, traffic, max_mib):
    return [Any(sizes[0] if sizes else 1)]
