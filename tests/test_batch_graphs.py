"""Steps through graph buckets give what the plain forward gives; padding rows are inert."""

import torch

from kernels.graphs import RecordingBackend
from kernels.kv_integrity import check_integrity
from lessons.lib.model import graphed
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


def test_buckets_chosen_from_measured_times_serve_the_same_steps(monkeypatch):
    """A staircase with steps at 3, 12 and 64 rows leaves these three, and steps still fit."""
    model = tiny_engine().model
    pool, (kv,) = empty_sequences(model, 1, 128)
    graphs = GraphedForward(model, pool, 4, RecordingBackend())
    measured = []

    def staircase(run, sizes, repeats):
        for size in sizes:
            run(size)
            measured.append(size)
        return {size: 1.0 if size <= 3 else 2.0 if size <= 12 else 5.0 for size in sizes}

    monkeypatch.setattr(graphed, "measure_staircase", staircase)
    choice = graphs.tune(max_waste=0.1)
    assert measured == list(graphed.MEASURED_LENS)
    assert choice.sizes == (3, 12, 64) and choice.largest_waste == 0
    assert choice.num_bytes > 3 * 97 * 4  # at least the logits of the shortest
    batch = prepare_batch(pool, [(kv, DraftTree.chain(random_ids(5, 0)))])
    expected = model.forward(batch, pool)
    logits, bucket = graphs(batch)
    assert bucket.query_len == 12 and relative_error(logits, expected) < 1e-5


def test_tuning_measures_what_it_chooses_from():
    model = tiny_engine().model
    pool, _ = empty_sequences(model, 1, 128)
    choice = GraphedForward(model, pool, 1, RecordingBackend()).tune(max_waste=1e9, repeats=1)
    assert choice.sizes == (64,)
