"""The default model against transformers in float32, which reads the same file its own way."""

import functools

import pytest
import torch
from transformers import AutoModelForCausalLM

from lessons.lib.bench.workload import KINDS, load_prompts
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.model.loader import default_model_path
from tests.engine_models import fresh_logits, smollm

TEN = [prompt for kind in KINDS for prompt in load_prompts(kinds=(kind,))[:2]]
NEW_TOKENS = 64


@functools.cache
def reference():
    path = default_model_path()
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    return model.eval()


def compare(prompt):
    """Relative logit error over prompt and answer, and whether the reference picks our tokens.

    One reference forward over the whole text: if its argmax behind every prefix of our answer is
    our next token, its own greedy decoding gives our answer.
    """
    engine = smollm("float32")
    prompt_ids = prompt.token_ids(engine.tokenizer)
    answer = engine.generate(prompt_ids, NEW_TOKENS, ignore_eos=True).token_ids
    ids = torch.tensor([[*prompt_ids, *answer]])
    ours = fresh_logits(engine.model, ids)[0]
    with torch.inference_mode():
        theirs = reference()(ids).logits[0]
    error = float((ours - theirs).abs().max() / theirs.abs().max())
    return error, answer, theirs.argmax(-1)[len(prompt_ids) - 1 : -1].tolist()


@pytest.mark.parametrize("prompt", TEN[1::4], ids=lambda p: p.name)
def test_logits_and_greedy_tokens_equal_transformers(prompt):
    error, ours, theirs = compare(prompt)
    assert error < 1e-3
    assert ours == theirs
    assert len(set(ours)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("prompt", TEN, ids=lambda p: f"{p.kind}-{p.name}")
def test_ten_prompts_equal_transformers_own_generate(prompt):
    error, ours, theirs = compare(prompt)
    assert error < 1e-3 and ours == theirs
    prompt_ids = torch.tensor([prompt.token_ids(smollm("float32").tokenizer)])
    generated = reference().generate(
        prompt_ids,
        attention_mask=torch.ones_like(prompt_ids),
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert generated[0, prompt_ids.shape[1] :].tolist() == ours


@pytest.mark.parametrize("kind", ["copy", "json", "chat"])
def test_ngram_equals_none_in_float32(kind):
    engine = smollm("float32")
    prompt = load_prompts("heldout", (kind,))[0]
    prompt_ids = prompt.token_ids(engine.tokenizer)
    plain = engine.generate(prompt_ids, 32)
    drafted = engine.generate(prompt_ids, 32, proposer=NgramProposer(), depth=8)
    assert drafted.token_ids == plain.token_ids
    if kind == "copy":
        assert len(drafted.rounds) < len(plain.rounds)


def test_a_known_answer():
    engine = smollm("bfloat16")
    message = {"role": "user", "content": "What is the capital of France?"}
    result = engine.generate(engine.tokenizer.apply_chat_template([message]), 20)
    assert "Paris" in engine.tokenizer.decode(result.token_ids)
    assert result.token_ids[-1] in engine.tokenizer.eos_token_ids
