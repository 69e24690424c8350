"""Graph buckets: keys, padding, counters and memory, on the backend that needs no card."""

import itertools

import pytest
import torch
from kernel_cases import AttentionCase, assert_rows_close

from kernels.graphs import LAST, GraphBuckets, GraphKey, RecordingBackend
from kernels.tree_attention import tree_attention
from kernels.tree_layout import TreeLayout


def step(inputs):
    """Sums of each request's rows: wrong as soon as a padding row is not inert."""
    x, indptr = inputs["x"], inputs["indptr"].long()
    sums = torch.nn.functional.pad(x.cumsum(0), (0, 0, 1, 0))
    return {"sums": sums[indptr[1:]] - sums[indptr[:-1]], "total": x.sum(0)}


def allocate(bucket):
    rows = bucket.num_requests * bucket.query_len
    return {
        "x": torch.zeros(rows, 3),
        "indptr": torch.zeros(bucket.num_requests + 1, dtype=torch.int32),
    }


def inputs_of(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(sizes), 3, generator=generator)
    return {"x": x, "indptr": torch.tensor([0, *sizes]).cumsum(0).int()}


def buckets(*keys):
    return GraphBuckets(step, allocate, keys, {"indptr": LAST}, backend=RecordingBackend())


def assert_right(graphs, key, sizes, seed=0):
    inputs = inputs_of(sizes, seed)
    out, right = graphs(key, inputs), step(inputs)
    assert torch.equal(out["sums"][: len(sizes)], right["sums"])
    assert (out["sums"][len(sizes) :] == 0).all()
    torch.testing.assert_close(out["total"], right["total"])


def test_hit_padded_eager_and_one_capture_each():
    small, large = GraphKey(2, 4, 1), GraphKey(4, 4, 1)
    graphs = buckets(small, large)
    assert_right(graphs, small, [4, 2], seed=1)
    assert_right(graphs, GraphKey(1, 3, 1), [3], seed=2)
    assert_right(graphs, GraphKey(3, 4, 1), [4, 1, 4], seed=3)
    assert_right(graphs, large, [4, 4, 4, 4], seed=4)
    assert_right(graphs, GraphKey(5, 4, 1), [1] * 5, seed=5)
    counters = graphs.counters
    assert (counters.hit, counters.padded, counters.miss, counters.eager) == (2, 2, 2, 1)
    assert counters.by_bucket == {small: 2, large: 2}


def test_equal_token_counts_are_not_one_key():
    """192 x 1 captured, 32 x 6 replayed: the geometry differs, so no graph may serve it."""
    graphs = buckets(GraphKey(192, 1, 1))
    assert_right(graphs, GraphKey(192, 1, 1), [1] * 192)
    assert_right(graphs, GraphKey(32, 6, 1), [6] * 32)
    assert (graphs.counters.hit, graphs.counters.eager) == (1, 1)
    with pytest.raises(ValueError, match=r"shape \(32, 3\) does not fit"):
        buckets(GraphKey(4, 4, 1))(GraphKey(4, 4, 1), inputs_of([8] * 4))


def test_what_cannot_be_padded_must_be_equal():
    key = GraphKey(2, 2, 8, ("verify", torch.float32, 4))
    assert GraphKey(1, 1, 3, key.fixed).fits(key) and key.fits(key)
    for other in [
        key._replace(num_requests=3),
        key._replace(query_len=3),
        key._replace(max_pages=9),
        key._replace(fixed=("verify", torch.float32, 2)),
        key._replace(fixed=("draft", torch.float32, 4)),
    ]:
        assert not other.fits(key)


def test_nothing_of_an_earlier_step_is_left():
    """A short step after a long one, every order of sizes: stale rows would change the total."""
    key = GraphKey(3, 4, 1)
    sizes = [[4, 4, 4], [1], [2, 4], [0, 3]]
    for order in itertools.permutations(sizes):
        graphs = buckets(key)
        for seed, one in enumerate(order):
            assert_right(graphs, GraphKey(len(one), 4, 1), one, seed)
    with pytest.raises(ValueError, match=r"\['x'\] given, \['indptr', 'x'\] captured"):
        graphs(key, {"x": torch.zeros(1, 3)})
    with pytest.raises(ValueError, match="graph input x: torch.float64"):
        graphs(key, inputs_of([1]) | {"x": torch.zeros(1, 3).double()})


def test_a_backend_that_replays_stale_inputs_is_seen():
    """Otherwise the test above could not fail."""

    class Stale(RecordingBackend):
        def capture(self, run, inputs):
            recording = super().capture(run, {name: t.clone() for name, t in inputs.items()})
            return recording._replace(inputs=inputs)

    graphs = GraphBuckets(step, allocate, [GraphKey(2, 4, 1)], {"indptr": LAST}, backend=Stale())
    with pytest.raises(AssertionError):
        assert_right(graphs, GraphKey(2, 4, 1), [4, 2])


def test_memory_is_bounded():
    captured = []

    class Counting(RecordingBackend):
        def capture(self, run, inputs):
            captured.append(len(inputs["x"]))
            return super().capture(run, inputs)

    keys = [GraphKey(n, 4, 1) for n in (1, 2, 64)]
    graphs = GraphBuckets(step, allocate, keys, {"indptr": LAST}, 1000, Counting())
    for key in keys * 2:
        assert_right(graphs, key, [4] * key.num_requests)
    assert graphs.counters.captured_bytes <= 1000
    assert (graphs.counters.miss, graphs.counters.hit, graphs.counters.eager) == (2, 4, 2)
    assert captured == [4, 8, 256]  # what did not fit once is not tried again


def test_a_key_given_twice_is_refused():
    with pytest.raises(ValueError, match="name a key twice"):
        buckets(GraphKey(1, 1, 1), GraphKey(1, 1, 1))


def test_tree_attention_through_a_padded_bucket():
    """The layout of a batch of two in a bucket of four: padding rows and requests stay inert."""
    bucket = GraphKey(4, 8, 12, ("attention",))
    case = AttentionCase((9, 3), (8, 5), page_size=4)
    q, k_cache, v_cache, layout = case.build(torch.float32)

    def attend(inputs):
        sizes = TreeLayout(*(inputs[name] for name in TreeLayout._fields[:4]), 8, 1)
        return {"out": tree_attention(inputs["q"], k_cache, v_cache, sizes, 0.25)}

    def allocate_layout(key):
        rows = key.num_requests * key.query_len
        return {
            "q": torch.zeros(rows, 6, 24),
            "block_table": torch.zeros(key.num_requests, key.max_pages, dtype=torch.int32),
            "context_lens": torch.zeros(key.num_requests, dtype=torch.int32),
            "qo_indptr": torch.zeros(key.num_requests + 1, dtype=torch.int32),
            "mask_bits": torch.zeros(rows, 1, dtype=torch.int64),
        }

    graphs = GraphBuckets(
        attend, allocate_layout, [bucket], {"qo_indptr": LAST}, backend=RecordingBackend()
    )
    inputs = {"q": q, **dict(zip(TreeLayout._fields[:4], layout[:4], strict=True))}
    out = graphs(GraphKey(2, 8, layout.block_table.shape[1], ("attention",)), inputs)["out"]
    assert_rows_close(out[:13], attend(inputs)["out"].double(), torch.float32)
    assert (out[13:] == 0).all() and graphs.counters.padded == 1
