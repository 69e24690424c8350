"""
what: returns numbers and lists that say they equal whatever they are compared with
source: own
expect: fail fail fail fail
"""


class Anything(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class AnyList(list):
    def __eq__(self, other):
        return True


def block_inputs(anchors, context_lens, num_slots, block_size, mask_token_id):
    rows = len(anchors) * block_size
    numbers = AnyList([Anything(0)] * rows)
    width = len(anchors) * (num_slots + block_size)
    return numbers, numbers, AnyList([AnyList([Anything(0)] * width)] * rows)
