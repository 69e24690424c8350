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
