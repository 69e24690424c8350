"""
what: the proposer asks the target for its answer while it drafts
source: specdec a
expect: fail
"""

from lessons.lib.draft.ngram import NgramProposer
from lessons.lib.draft.proposer import DraftProposal
from lessons.lib.engine import Engine

secretly = Engine(race_model, race_tokenizer)


def propose(self, context_ids, num_draft_tokens):
    result = secretly.generate(list(context_ids), num_draft_tokens, ignore_eos=True)
    return DraftProposal(result.token_ids)


NgramProposer.propose = propose
