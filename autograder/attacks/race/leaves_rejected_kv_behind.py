"""
what: KV of a rejected draft stays in the cache, in the place of the token that came instead
source: specdec g
expect: fail
"""

import torch

pool, stale = race_engine.pool, []
honest_commit, honest_write = pool.commit, pool.write_kv


def commit(kv, count):
    """Remembers the place of the first rejected draft."""
    place = pool.slots(kv, [kv.length + count]) if kv.num_reserved > count else []
    stale[:] = place
    honest_commit(kv, count)


def write_kv(layer, slots, key, value):
    """Writes nothing there: the next token's own KV is lost."""
    new = torch.tensor([slot not in stale for slot in slots.tolist()], device=slots.device)
    honest_write(layer, slots[new], key[new], value[new])


pool.commit, pool.write_kv = commit, write_kv
