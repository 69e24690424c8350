import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.runtime import InputError
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.registry import make_proposer, method_names


def propose_slowly(context, count, max_ngram, min_ngram):
    """By definition: the longest suffix that occurs earlier, its latest place, copied on."""
    for length in range(max_ngram, min_ngram - 1, -1):
        places = [
            start
            for start in range(len(context) - length)
            if context[start : start + length] == context[len(context) - length :]
        ]
        if places and len(context) > length:
            text, source = list(context), places[-1] + length
            while len(text) < len(context) + count:
                text.append(text[source + len(text) - len(context)])
            return text[len(context) :]
    return []


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_equals_the_definition(context, count, min_ngram, more):
    found = NgramProposer(min_ngram + more, min_ngram).propose(context, count)
    assert found.token_ids == propose_slowly(context, count, min_ngram + more, min_ngram)
    assert found.draft_probs is None


@pytest.mark.parametrize(
    "context, expected",
    [
        ([1, 2, 3, 9, 8, 7, 1, 2, 3], [9, 8, 7, 1]),
        ([1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3], [9, 5, 2, 3]),  # three tokens beat a later two
        ([5, 2, 3, 9, 6, 2, 3, 8, 7, 2, 3], [8, 7, 2, 3]),  # the latest of equals
        ([4, 4, 4], [4, 4, 4, 4]),  # a short period is continued past its end
        ([1, 2, 3, 4], []),
        ([1], []),
    ],
)
def test_examples(context, expected):
    assert NgramProposer().propose(context, 4).token_ids == expected


def test_one_repeated_token_is_no_match_by_default():
    assert NgramProposer().propose([1, 2, 3, 1], 4).token_ids == []
    assert NgramProposer(min_ngram=1).propose([1, 2, 3, 1], 4).token_ids == [2, 3, 1, 2]


def test_bad_lengths_and_unknown_methods():
    with pytest.raises(InputError, match="got 3 and 2"):
        NgramProposer(max_ngram=2, min_ngram=3)
    with pytest.raises(InputError, match="'medusa'; choose one of none, ngram"):
        make_proposer("medusa")
    assert make_proposer("none") is None
    assert isinstance(make_proposer("ngram"), NgramProposer)
    assert method_names()[0] == "none"


def leaves(proposal):
    """Token paths of a tree, as a set of tuples."""
    tree = proposal.to_tree(0)
    ends = [node for node in range(1, tree.num_nodes) if not tree.children[node]]
    return {tuple(tree.token_ids[node] for node in tree.path(end)[1:]) for end in ends}


def test_a_tree_of_different_continuations():
    context = [1, 2, 5, 6, 9, 1, 2, 7, 8, 9, 1, 2, 5, 4, 9, 1, 2]
    propose = NgramProposer(max_ngram=2, num_branches=2).propose
    assert leaves(propose(context, 6)) == {(5, 4, 9), (7, 8, 9)}  # the later 5 hides the earlier
    assert leaves(propose(context, 5)) == {(5, 4, 9), (7, 8)}
    assert leaves(propose(context, 1)) == {(5,)}
    assert leaves(NgramProposer(num_branches=3).propose([1, 2, 3, 4], 4)) == set()
    with pytest.raises(InputError, match="num_branches must be 1 or more, got 0"):
        NgramProposer(num_branches=0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 9), st.integers(2, 4))
def test_a_tree_holds_the_beginning_of_the_chain(context, count, branches):
    tree = NgramProposer(min_ngram=1, num_branches=branches).propose(context, count)
    chain = NgramProposer(min_ngram=1).propose(context, count)
    paths = leaves(tree)
    assert len(tree.token_ids) == (count if chain.token_ids else 0)
    assert len(paths) <= branches and len({path[0] for path in paths}) == len(paths)
    assert not paths or any(path == tuple(chain.token_ids[: len(path)]) for path in paths)
