"""The engine with a `verify_chain` of Lesson 7: the tokens of the engine's own rule."""

import pytest
import torch

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.engine import Engine
from lessons.lib.model.loader import load_model
from lessons.lib.plugs.lesson07 import chain_rule
from lessons.lib.sampling import SeededRandom, logits_to_probs
from lessons.lib.verify import residual_probs
from tests.engine_models import fresh_logits, reference_model, write_folder

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_model(
        write_folder(reference_model("qwen3"), tmp_path_factory.mktemp("model")), "float32", "cpu"
    )


def verify_chain(draft_token_ids, draft_probs, target_probs, coins):
    """As the engine's `verify_sampled`, over the exercise's contract."""
    for index, token in enumerate(draft_token_ids):
        if coins[index] >= target_probs[index][token] / draft_probs[index][token]:
            rows = torch.tensor(target_probs[index]), torch.tensor(draft_probs[index])
            return index, residual_probs(*rows).tolist()
    return len(draft_token_ids), target_probs[-1]


class Blurred:
    """Draws from the target at a higher temperature, as a drafter that is nearly right."""

    memory_bytes = 0

    def __init__(self, model, sampling):
        self.model, self.sampling, self.random = model, sampling, SeededRandom(1, is_draft=True)

    def propose(self, context_ids, num_draft_tokens):
        text, rows = list(context_ids), []
        for _ in range(num_draft_tokens):
            logits = fresh_logits(self.model, torch.tensor([text]))[0, -1]
            rows.append(logits_to_probs(logits, self.sampling))
            text.append(self.random.draw(rows[-1], len(text)))
        return DraftProposal(text[len(context_ids) :], torch.stack(rows))

    def observe(self, token_ids):
        pass

    def forget(self):
        pass


def generate(engine, **settings):
    return engine.generate(PROMPT, 40, ignore_eos=True, depth=3, **settings)


def test_greedy_tokens_are_those_of_the_engine_in_fewer_rounds(loaded):
    plain = Engine(*loaded).generate(PROMPT, 60, ignore_eos=True)
    theirs = Engine(*loaded, verify=chain_rule(verify_chain))
    got = theirs.generate(PROMPT, 60, proposer=NgramProposer(min_ngram=1), depth=3, ignore_eos=True)
    assert got.token_ids == plain.token_ids
    assert any(record.accepted for record in got.rounds)
    assert theirs.generate(PROMPT, 60, ignore_eos=True).token_ids == plain.token_ids


def test_drawn_tokens_are_those_of_the_engines_own_rule(loaded):
    """Same coins, same draws: the plug adds nothing random."""
    sampling, hotter = SamplingParams(0.8, top_k=20, seed=5), SamplingParams(1.2, top_k=30)
    own, theirs = Engine(*loaded), Engine(*loaded, verify=chain_rule(verify_chain))
    expected = generate(own, sampling=sampling, proposer=Blurred(loaded[0], hotter))
    got = generate(theirs, sampling=sampling, proposer=Blurred(loaded[0], hotter))
    assert got.token_ids == expected.token_ids
    accepted = [record.accepted for record in got.rounds]
    assert max(accepted) > min(accepted)


def test_a_wrong_function_changes_the_tokens(loaded):
    """The engine believes it: nothing behind the plug corrects what it decides."""

    def keeps_all(drafts, draft_probs, target_probs, coins):
        return len(drafts), target_probs[-1]

    plain = Engine(*loaded).generate(PROMPT, 40, ignore_eos=True)
    got = generate(
        Engine(*loaded, verify=chain_rule(keeps_all)), proposer=NgramProposer(min_ngram=1)
    )
    assert got.token_ids != plain.token_ids


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "must return a pair"),
        ((9, [1.0]), "num_accepted must be 0 to"),
        ((True, [1.0]), "num_accepted must be 0 to"),
        ((0, [1.0] * 90), "next_probs must hold"),
        ((0, None), "next_probs must be a list"),
    ],
)
def test_an_answer_that_is_none_is_named(loaded, answer, words):
    engine = Engine(*loaded, verify=chain_rule(lambda *rows: answer))
    with pytest.raises(InputError, match=words):
        generate(engine, proposer=NgramProposer(min_ngram=1))


def test_a_row_that_is_no_law_is_named(loaded):
    half = chain_rule(lambda drafts, draft, target, coins: (0, [p / 2 for p in target[0]]))
    with pytest.raises(InputError, match="not negative, sum 1"):
        generate(Engine(*loaded, verify=half))


def test_a_tree_is_refused(loaded):
    class Branches(NgramProposer):
        def propose(self, context_ids, num_draft_tokens):
            return DraftProposal([1, 2], parent_ids=[-1, -1])

    with pytest.raises(InputError, match="without branches"):
        generate(Engine(*loaded, verify=chain_rule(verify_chain)), proposer=Branches())
