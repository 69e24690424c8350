"""Steps through graph buckets give what the plain forward gives; padding rows are inert."""

import torch

from kernels.graphs import RecordingBackend
from kernels.kv_integrity import check_integrity
from lessons.lib.model.batch import prepare_batch
from lessons.lib.model.graphed import GraphedForward
from lessons.lib.tree import DraftTree
from tests.batch_kit import assert_expected, make_cases, random_ids, relative_error, tiny_engine
from tests.engine_models import append, empty_sequences


def graphed_engine(**settings):
    """An engine whose steps go through buckets that are run again instead of replayed."""
    engine = tiny_engine(**settings)
    engine._graphs = GraphedForward(engine.model, engine.pool, 16, RecordingBackend())
    return engine


def test_padded_steps_give_the_same_tokens():
    cases = make_cases(6, seed=40)
    engine = graphed_engine(page_size=4)
    records = []
    names = {case.add_to(engine): case for case in cases}
    while engine.has_work:
        records.append(engine.step())
        check_integrity(engine.pool, engine.sequences)
    assert_expected({name: (case, engine.take_result(name)) for name, case in names.items()})
    counters = engine._graphs.counters
    assert counters.padded > 0 and counters.eager == 0
    for record in records:
        if record.prefilled:
            assert record.bucket is None  # prompts run eagerly
        else:
            assert record.bucket.num_requests >= record.num_requests
            assert record.bucket.query_len >= record.max_query_len
    assert counters.hit + counters.padded == sum(record.bucket is not None for record in records)


def test_padding_writes_to_nobody():
    model = tiny_engine().model
    pool, sequences = empty_sequences(model, 3, 64, 4)
    graphs = GraphedForward(model, pool, 4, RecordingBackend())
    for number, kv in enumerate(sequences):
        append(model, pool, [kv], torch.tensor([random_ids(10 + number, number)]))
    trees = [DraftTree.chain([5, 6, 7]), DraftTree((8,), (-1,)), DraftTree((9, 1, 2), (-1, 0, 0))]
    batch = prepare_batch(pool, list(zip(sequences, trees, strict=True)))
    expected = model.forward(batch, pool)
    before = [cache.clone() for cache in pool.k + pool.v]
    logits, bucket = graphs(batch)
    assert (bucket.num_requests, bucket.query_len) == (4, 4)
    assert logits.shape == (7, 97) and relative_error(logits, expected) < 1e-5
    page = graphs.scratch.block_table[0]
    for cache, old in zip(pool.k + pool.v, before, strict=True):
        others = [number for number in range(len(cache)) if number != page]
        assert relative_error(cache[others], old[others]) < 1e-5
        assert not torch.equal(cache[page], old[page])


def test_a_step_too_wide_for_any_bucket_runs_eagerly():
    model = tiny_engine().model
    pool, (kv,) = empty_sequences(model, 1, 128)
    graphs = GraphedForward(model, pool, 4, RecordingBackend())
    logits, bucket = graphs(prepare_batch(pool, [(kv, DraftTree.chain(random_ids(70, 0)))]))
    assert bucket is None and logits.shape == (70, 97)
