"""Lab 8B: attention made of the solution's lines is the kernel's reference; of others it is not."""

import pytest
import torch
from kernel_cases import AttentionCase, assert_rows_close
from unit_kit import cells, run, solution

from autograder.fill_ins import fill_ins
from kernels.runtime import InputError
from kernels.tree_attention import tree_attention_ref
from lessons.lib.plugs.lab08b import stepped_attention

SETUP = [cell.source for cell in cells("lab08b", "setup")]
CASES = (
    AttentionCase((37, 5), (6, 1)),  # several blocks of the prefix; a tree of one node
    AttentionCase((0, 3), (20, 4), page_size=3),  # no prefix; two blocks of the tree
    AttentionCase((2,), (70,), num_heads=2, num_kv_heads=2, head_dim=4),  # two mask words
)
SCALE = 0.3


def lines(text):
    namespace = run(*SETUP, text)[0]
    return namespace["online_softmax_step"], namespace["normalize"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_solution_is_the_reference(case):
    answer = "\n".join(cell.source for cell in solution("lab08b").cells)
    inputs = case.build(torch.float32)
    expected = tree_attention_ref(*inputs, SCALE)
    assert_rows_close(stepped_attention(*inputs, SCALE, *lines(answer)), expected, torch.float32)


@pytest.mark.parametrize("name", ["keeps_acc", "ignores_bits", "natural_base", "turned_round"])
def test_wrong_lines_are_not(name):
    (text,) = [i.text for i in fill_ins("lab08b") if i.name == f"wrong/{name}"]
    inputs = CASES[0].build(torch.float32)
    wrong = stepped_attention(*inputs, SCALE, *lines(text))
    with pytest.raises(AssertionError):
        assert_rows_close(wrong, tree_attention_ref(*inputs, SCALE), torch.float32)


def test_a_state_of_another_shape_is_named():
    inputs = CASES[0].build(torch.float32)
    with pytest.raises(InputError, match=r"row_max has shape \[1\], expected \[18\]"):
        stepped_attention(*inputs, SCALE, lambda acc, *rest: (acc, [0.0], [0.0]), None)
    with pytest.raises(InputError, match="must return"):
        stepped_attention(*inputs, SCALE, lambda *block: None, None)
