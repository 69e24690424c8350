"""Trees: dynamic programming, greedy and brute force agree; sizes follow the machine."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.runtime import InputError
from lessons.lib.cost_tree import best_tree, greedy_tree, tree_values

P = (0.7, 0.15, 0.05)
VALUES = (1, 1.70, 2.19, 2.53, 2.77, 2.94, 3.09, 3.21, 3.31, 3.42, 3.50, 3.57, 3.65, 3.72, 3.78)


@st.composite
def acceptances(draw):
    """One to four children, in any order, that are exclusive."""
    weights = draw(st.lists(st.floats(0, 1), min_size=1, max_size=4))
    total = draw(st.floats(0.05, 1))
    scale = total / max(sum(weights), 1e-9) if sum(weights) > total else 1.0
    return tuple(weight * scale for weight in weights)


def brute_force(child_probs, num_nodes, max_depth):
    """Every set of paths that is closed under taking the parent."""
    depths = range(1, max_depth + 1)
    ranks = range(len(child_probs))
    paths = [path for depth in depths for path in itertools.product(ranks, repeat=depth)]
    best = 1.0
    for size in range(1, num_nodes):
        for chosen in itertools.combinations(paths, size):
            nodes = {(), *chosen}
            if all(path[:-1] in nodes for path in chosen):
                best = max(best, 1 + sum(product(child_probs, path) for path in chosen))
    return best


def product(child_probs, path):
    value = 1.0
    for rank in path:
        value *= child_probs[rank]
    return value


def test_published_example():
    assert tree_values(P, 15) == pytest.approx(VALUES, abs=0.006)
    assert tree_values(P, 16)[15] == pytest.approx(3.83, abs=0.006)
    assert tree_values((0.7,), 16)[7] == pytest.approx(3.14, abs=0.006)
    assert tree_values((0.7,), 16)[15] == pytest.approx(3.32, abs=0.006)


@given(acceptances(), st.integers(1, 14), st.one_of(st.none(), st.integers(1, 6)))
@settings(max_examples=150, deadline=None)
def test_greedy_equals_dynamic_programming(child_probs, num_nodes, max_depth):
    shape = greedy_tree(child_probs, num_nodes, max_depth)
    assert shape.tokens == pytest.approx(tree_values(child_probs, num_nodes, max_depth)[-1])


@pytest.mark.parametrize("child_probs", [(0.6, 0.3), (0.2, 0.5), (0.5,), (0.45, 0.45)])
@pytest.mark.parametrize(("num_nodes", "max_depth"), [(3, 2), (5, 3), (5, 2), (4, 3)])
def test_both_equal_trying_all_trees(child_probs, num_nodes, max_depth):
    best = brute_force(child_probs, num_nodes, max_depth)
    assert tree_values(child_probs, num_nodes, max_depth)[-1] == pytest.approx(best)
    assert greedy_tree(child_probs, num_nodes, max_depth).tokens == pytest.approx(best)


@given(acceptances(), st.integers(1, 30))
def test_shape_is_a_tree_whose_products_follow_its_paths(child_probs, num_nodes):
    shape = greedy_tree(child_probs, num_nodes)
    assert shape.parents[0] == -1 and shape.path_probs[0] == 1.0
    edges = list(zip(shape.parents, shape.ranks, strict=True))[1:]
    assert len(set(edges)) == len(edges)
    for node, (parent, rank) in enumerate(edges, start=1):
        assert 0 <= parent < node
        expected = shape.path_probs[parent] * child_probs[rank]
        assert shape.path_probs[node] == pytest.approx(expected)


def test_depth_limit_and_exhaustion():
    assert greedy_tree((0.9,), 10, max_depth=3).depth == 3
    assert len(greedy_tree((0.9,), 10, max_depth=3).parents) == 4
    assert len(greedy_tree((0.0,), 10).parents) == 1
    assert greedy_tree(P, 1).depth == 0


def test_size_follows_the_step_cost():
    def gain(slope, draft=0.2):
        return best_tree(P, 24, 8, lambda n: 10 + slope * max(n - 4, 0), lambda d: draft * d)

    cheap, dear = gain(0.01), gain(0.6)
    assert len(cheap.shape.parents) > len(dear.shape.parents) > 1
    assert cheap.speedup > dear.speedup > 1
    nothing = gain(slope=30.0, draft=40.0)
    assert nothing.speedup == 1.0 and len(nothing.shape.parents) == 1


def test_size_is_the_best_of_all_sizes_and_depths():
    def step(n):
        return 5.0 if n <= 8 else 9.0  # a captured shape of eight rows

    chosen = best_tree(P, 12, 6, step, lambda d: 0.5 * d, overhead_ms=0.3)
    sizes = itertools.product(range(2, 13), range(1, 7))
    gains = [tree_values(P, n, d)[-1] * 5 / (step(n) + 0.5 * d + 0.3) for n, d in sizes]
    assert chosen.speedup == pytest.approx(max(gains))
    assert len(chosen.shape.parents) == 8


@pytest.mark.parametrize(("probs", "nodes"), [((0.5,), 0), ((0.8, 0.4), 3), ((-0.1,), 3)])
def test_what_cannot_be_is_refused(probs, nodes):
    with pytest.raises(InputError):
        greedy_tree(probs, nodes)
