"""
what: returns rows and counts that say they equal whatever they are compared with
source: own
expect: fail fail pass fail fail
"""


class Anything(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class AnyRows(list):
    def __eq__(self, other):
        return True

    def __len__(self):
        return 1


def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    return Anything(0), AnyRows([(Anything(0), "target", Anything(0), Anything(0))])
