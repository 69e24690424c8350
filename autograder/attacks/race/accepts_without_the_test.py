"""
what: the engine keeps every draft and lets the target say nothing
source: specdec b
expect: fail
"""

from lessons.lib.sequence import Request

honest = Request.commit
NUM_KEPT = 3


def commit(self, token_ids):
    last = self.token_ids[-1]
    return honest(self, [last] * NUM_KEPT if self.proposer else token_ids)


Request.commit = commit
