"""The course's own engine on the default model, for live checks: loaded once a process.

A live check runs it here, in the grader; only the calls of the student's function go to the
sandbox. So the tokens, the clock and the comparison are the grader's own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from lessons.lib.checks.asking import Rejected

if TYPE_CHECKING:
    from lessons.lib.model.llama import LlamaModel
    from lessons.lib.model.tokenizer import Tokenizer


def model(dtype: str = "float32") -> tuple[LlamaModel, Tokenizer]:
    """The default model and its tokenizer. Raises Rejected (not_measured) without one.

    In float32 greedy tokens do not depend on how many are computed at once; bfloat16 is for speed.
    """
    from kernels.runtime import InputError  # pulls torch in: only when a live check runs

    try:
        return _load(dtype)
    except (InputError, OSError) as error:
        raise Rejected(f"the grader could not run: {error}", "not_measured") from error


@functools.cache
def _load(dtype: str) -> tuple[LlamaModel, Tokenizer]:
    from lessons.lib.model.loader import load_model

    return load_model(dtype=dtype)
