"""Random lives of requests leave nothing leaked and every KV equal to a fresh prefill.

The books are checked in every round, the content of all live tokens in every eighth: a full
comparison every round would cost more than the rounds themselves.
"""

import dataclasses
import json

import pytest
import torch

from kernels.kv_pool import RollbackPolicy, SequenceKV
from kernels.kv_soak import POOL_SIZES, KVSoak, Request, WrongKV, fresh_prefill, make_pool, soak

FAST_ROUNDS = 200_000
SLOW_ROUNDS = 1_000_000
CONFIGURATIONS = [(size, policy) for size in POOL_SIZES for policy in RollbackPolicy]


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors of a few numbers: a second thread only takes time from others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("page_size, policy", CONFIGURATIONS)
def test_random_rounds_leak_nothing_and_keep_every_kv(page_size, policy):
    rounds = -(-FAST_ROUNDS // len(CONFIGURATIONS))
    seed = 1000 * page_size + list(RollbackPolicy).index(policy)
    print(f"seed {seed}")
    counts = KVSoak(make_pool(page_size, policy), seed).run(rounds).counts
    happened = ("verify", "admit", "fork", "preempt", "abort", "finish", "accepted", "rejected")
    for event in (*happened, "out_of_pages", "evicted", "tokens_from_cache"):
        assert counts[event] > rounds / 1000, f"{event} hardly happened: {counts}"
    assert counts["peak_pages"] == POOL_SIZES[page_size][0], "the pool was never full"
    assert (counts["copied_bytes"] > 0) == (page_size > 1), "a page of one token is never half full"
    assert (counts["moved_bytes"] == 0) == (policy is RollbackPolicy.COUNTER)
    assert (counts["pages_returned"] > 0) == (policy is RollbackPolicy.RETURN_PAGES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_soak_of_a_million_rounds():
    reports = soak(SLOW_ROUNDS, seed=7)
    assert sum(report.rounds for report in reports) >= SLOW_ROUNDS


def test_soak_covers_every_configuration_repeats_by_seed_and_is_plain_data():
    reports = soak(240, seed=3)
    assert {(r.page_size, r.policy) for r in reports} == {(s, p.value) for s, p in CONFIGURATIONS}
    assert reports == soak(240, seed=3) != soak(240, seed=4)
    plain = [dataclasses.asdict(report) for report in reports]
    assert json.loads(json.dumps(plain)) == plain


@pytest.mark.parametrize("null_answer", ["zeros", "ones", "input", "swapped"])
def test_the_content_check_rejects_null_answers(null_answer):
    """`input`: the tokens' own numbers instead of their KV. Zeros is also a pool never written."""
    driver = KVSoak(make_pool(3, RollbackPolicy.RETURN_PAGES), seed=0)
    pool, tokens = driver.pool, [2, 0, 1, 1, 0, 2, 2]
    request = Request(tokens, SequenceKV())
    slots = pool.reserve_tree(request.kv, len(tokens))
    right = fresh_prefill(tokens)[:, None]
    ids = torch.tensor(tokens, dtype=torch.float32)[:, None, None].expand_as(right)
    pool.write_kv(0, slots, right, -right)
    pool.commit(request.kv, len(tokens))
    driver.check_content([request])
    wrong = {
        "zeros": (right * 0, right * 0),
        "ones": (right * 0 + 1, right * 0 + 1),
        "input": (ids, ids),
        "swapped": (-right, right),
    }
    pool.write_kv(0, slots, *wrong[null_answer])
    with pytest.raises(WrongKV, match="position 0"):
        driver.check_content([request])
