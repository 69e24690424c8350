"""bfloat16 promises no equal tokens: where two runs part, the target itself was undecided."""

import pytest
import torch

from lessons.lib.bench.workload import KINDS, load_prompts
from lessons.lib.draft.registry import make_proposer
from tests.engine_models import fresh_logits, smollm

# Logits of this model lie between 16 and 32, where bfloat16 values are 0.125 apart: four steps.
TOLERANCE = 0.5
HELDOUT = [prompt for kind in KINDS for prompt in load_prompts("heldout", (kind,))]


def gaps_at_differences(prompts, count, record_property):
    """Gaps of the two likeliest logits where drafted batches leave the plain answer."""
    engine, gaps = smollm("bfloat16"), []
    texts = [prompt.token_ids(engine.tokenizer) for prompt in prompts]
    plain = [engine.generate(text, count, ignore_eos=True).token_ids for text in texts]
    methods = ["ngram", "ngram-tree"]
    names = [
        engine.add_request(
            text, count, proposer=make_proposer(methods[i % 2]), depth=8, ignore_eos=True
        )
        for i, text in enumerate(texts)
    ]
    while engine.has_work:
        engine.step()
    for prompt, text, expected, name in zip(prompts, texts, plain, names, strict=True):
        found = engine.take_result(name).token_ids
        places = [i for i in range(count) if found[i] != expected[i]]
        if places:
            ids = torch.tensor([[*text, *expected[: places[0]]]])
            top = fresh_logits(engine.model, ids)[0, -1].float().topk(2).values
            gaps.append(float(top[0] - top[1]))
            record_property(prompt.name, f"token {places[0]}, gap {gaps[-1]:.3f}")
    return gaps


def test_drafted_batch_parts_only_where_the_target_is_undecided(record_property):
    gaps = gaps_at_differences(HELDOUT[::7], 24, record_property)
    assert all(gap < TOLERANCE for gap in gaps), gaps


@pytest.mark.slow
def test_twenty_prompts(record_property):
    gaps = gaps_at_differences(HELDOUT, 64, record_property)
    assert all(gap < TOLERANCE for gap in gaps), gaps
    assert len(gaps) < len(HELDOUT)  # and some answers are equal to the end


def test_a_wrong_draft_rule_would_show():
    """Away from a near tie the gap is far above the tolerance, so the test above can fail."""
    engine = smollm("bfloat16")
    text = HELDOUT[0].token_ids(engine.tokenizer)
    answer = engine.generate(text, 24, ignore_eos=True).token_ids
    logits = fresh_logits(engine.model, torch.tensor([[*text, *answer]]))[0, len(text) :].float()
    top = logits.topk(2, dim=-1).values
    assert ((top[:, 0] - top[:, 1]) > TOLERANCE).float().mean() > 0.5
