"""kv_move against a row-by-row loop, bit for bit, where sources and targets overlap.

`check_all_cases` runs here on torch's path, in a subprocess under Triton's interpreter and, marked
gpu, on a real card.
"""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernels.kv_move import cache_pointers, kv_move

ROOT = Path(__file__).parent.parent
# (pages, page_size, kv_heads, head_dim): one-number rows, odd sizes, rows wider than one strip.
TINY_SHAPES = [(40, 1, 1, 1), (14, 3, 1, 5), (6, 16, 3, 7), (4, 64, 3, 50)]
# Trees of a batch: no move, one, a chain that shifts by one (all overlap), longer than one block.
PATHS = [[], [5], [1, 2, 3, 4, 5, 6], [0, 2, 3, 7], list(range(1, 20))]


def make_caches(shape, dtype, count=3, device="cpu"):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(device, dtype) for _ in range(count)]


def make_moves(shape, paths, seed):
    """Slots of (node -> place) on shuffled pages, a batch of trees: sources, targets, offsets."""
    num_pages, page_size = shape[:2]
    pages = random.Random(seed).sample(range(num_pages), num_pages)
    slots = [page * page_size + offset for page in pages for offset in range(page_size)]
    sources, targets, offsets, base = [], [], [0], 0
    for path in paths:
        width = max(path, default=0) + 1
        if base + width > len(slots):
            break
        sources += [slots[base + node] for node in path]
        targets += [slots[base + place] for place in range(len(path))]
        offsets.append(len(sources))
        base += -(-width // page_size) * page_size  # sequences share no page
    return sources, targets, offsets


def moved_one_by_one(caches, moves):
    """The expected result: rows taken in order, with plain indexing of one row at a time."""
    moved = [cache.clone() for cache in caches]
    for cache in moved:
        rows = cache.view(-1, *cache.shape[2:])
        for source, target in moves:
            rows[target] = rows[source].clone()
    return moved


def run_kv_move(caches, sources, targets, offsets):
    moved = [cache.clone() for cache in caches]
    indices = [
        torch.tensor(x, dtype=torch.int64, device=caches[0].device)
        for x in (sources, targets, offsets)
    ]
    kv_move(moved, cache_pointers(moved), *indices)
    return moved


def equal(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def check_case(shape, dtype, paths=PATHS, seed=0, device="cpu", count=3):
    caches = make_caches(shape, dtype, count, device)
    sources, targets, offsets = make_moves(shape, paths, seed)
    assert len(sources) > 6, "the case moves next to nothing"
    moves = list(zip(sources, targets, strict=True))
    expected = moved_one_by_one(caches, moves)
    assert equal(run_kv_move(caches, sources, targets, offsets), expected), (shape, dtype, seed)
    return caches, expected, moves


def check_case_and_null_answers(shape, dtype, device):
    """Also: what a lazy or wrong kernel would leave must differ from what is expected."""
    caches, expected, moves = check_case(shape, dtype, device=device)
    null_answers = {
        "input": caches,
        "zeros": [torch.zeros_like(c) for c in caches],
        "ones": [torch.ones_like(c) for c in caches],
        "right to left": moved_one_by_one(caches, moves[::-1]),
        "one cache left out": [*expected[:-1], caches[-1]],
    }
    for name, answer in null_answers.items():
        assert not equal(answer, expected), f"{name} passes the comparison for {shape}"


def check_all_cases(device="cpu"):
    for shape, dtype in itertools.product(TINY_SHAPES, (torch.float32, torch.float16)):
        check_case_and_null_answers(shape, dtype, device)


def test_torch_path_equals_moves_taken_in_order():
    check_all_cases()


def test_random_increasing_paths_equal_moves_taken_in_order():
    """The safety argument of the module, put to 300 random trees of every width up to 40."""
    for seed in range(300):
        chooser = random.Random(seed)
        width = chooser.randint(8, 40)
        path = sorted(chooser.sample(range(width), chooser.randint(7, width - 1)))
        check_case((16, 3, 1, 2), torch.float32, [path], seed)


def test_no_moves_change_nothing():
    caches = make_caches((4, 3, 1, 2), torch.float32)
    assert equal(run_kv_move(caches, [], [], [0, 0, 0]), caches)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a | {"caches": [c[0] for c in a["caches"]]}, "a cache is"),
        (lambda a: a | {"caches": [*a["caches"][:-1], a["caches"][0].double()]}, "differ in shape"),
        (lambda a: a | {"caches": [c.transpose(1, 2) for c in a["caches"]]}, "contiguous"),
        (lambda a: a | {"source_slots": a["source_slots"].int()}, "int64"),
        (lambda a: a | {"source_slots": a["source_slots"][None]}, "1-D"),
        (lambda a: a | {"target_slots": a["target_slots"][:1]}, "as many sources"),
        (lambda a: a | {"move_offsets": a["move_offsets"][:1]}, "a start and an end"),
        (lambda a: a | {"pointers": a["pointers"][:1]}, "1 pointers, 3 caches"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_moves(change, message):
    caches = make_caches((4, 3, 2, 2), torch.float32)
    before = [cache.clone() for cache in caches]
    arguments = {
        "caches": caches,
        "pointers": cache_pointers(caches),
        "source_slots": torch.tensor([4, 5]),
        "target_slots": torch.tensor([3, 4]),
        "move_offsets": torch.tensor([0, 2]),
    }
    with pytest.raises(AssertionError, match=message):
        kv_move(**change(arguments))
    assert equal(caches, before)


def run_python(code, **environment):
    """A fresh interpreter: Triton decides at import whether kernels are interpreted."""
    clean = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    clean["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, env=clean | environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_kernel_under_the_interpreter():
    """float32 and float16 only: in Triton 3.7 to 3.9 the interpreter gets bfloat16 wrong."""
    pytest.importorskip("triton")
    code = "import test_kv_move as t, kernels.kv_move as k; print(type(k.kv_move_kernel).__name__);"
    output = run_python(code + "t.check_all_cases(); print('done')", TRITON_INTERPRET="1")
    assert output.split() == ["InterpretedFunction", "done"]


COMPILE = """
import triton, kernels.kv_move as m
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
pointers = dict.fromkeys(("cache_pointers", "source_slots", "target_slots", "move_offsets"), "*i64")
constants = ("WORD", "BLOCK_MOVES", "BLOCK_COLUMNS")
signature = pointers | {"num_columns": "i32"} | dict.fromkeys(constants, "constexpr")
for word in (m.WORD_TYPES[2], m.WORD_TYPES[4]):
    values = dict(zip(constants, (word, m.BLOCK_MOVES, m.MAX_BLOCK_COLUMNS)))
    source = ASTSource(fn=m.kv_move_kernel, signature=signature, constexprs=values)
    for capability in (80, 90):
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
        assert len(compiled.asm["cubin"]) > 1000
        ptx = compiled.asm["ptx"]
        last_load, barrier = ptx.rindex("ld.global"), ptx.index("bar.sync")
        assert last_load < barrier < ptx.index("st.global"), "a row is written before all are read"
        print(capability, word)
"""


def test_kernel_compiles_for_sm_80_and_sm_90_and_reads_before_it_writes():
    pytest.importorskip("triton")
    assert len(run_python(COMPILE).splitlines()) == 4


@pytest.mark.gpu
def test_kernel_on_a_gpu_tiny():
    check_all_cases("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_kernel_on_a_gpu_with_real_shapes(dtype, page_size):
    """30 layers of K and V, 3 heads of 64; then 8 heads of 128; eight trees of 64 nodes."""
    chooser = random.Random(page_size)
    paths = [sorted(chooser.sample(range(64), chooser.randint(1, 60))) for _ in range(8)]
    for heads, dim in ((3, 64), (8, 128)):
        shape = (2048 // page_size, page_size, heads, dim)
        for seed in range(3):
            check_case(shape, dtype, paths, seed, device="cuda", count=60)
