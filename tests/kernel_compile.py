"""Compiles every kernel to machine code of the given architectures; needs Triton, but no GPU.

`python tests/kernel_compile.py 80 90` prints one line a kernel and architecture, and fails where
one does not compile. Run by `test_kernel_compile.py` in a process without TRITON_INTERPRET.
"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels import acceptance, draft_topk, rms_norm, tree_attention

# Types of the arguments by name; what is not listed is a 32-bit integer.
TYPES = {
    "*i32": "block_table context_lens qo_indptr first_child next_sibling indptr paths path_lens "
    "tried_under best_ids",
    "*i64": "mask_bits token_ids d2t target_ids",
    "*fp32": "part_out part_lse best_logits block_lse log_probs draft_probs coins",
    "fp32": "scale_log2 eps",
    "*data": "q k_cache v_cache out x residual weight summed hidden",
}
NAMED = {name: kind for kind, names in TYPES.items() for name in names.split()}

ATTENTION = dict(GROUP=3, HEAD_DIM=64, PAGE_SIZE=16, BLOCK_M=32, BLOCK_N=64, BLOCK_D=64,
                 UPCAST=False)  # fmt: skip
HEAD = dict(K=8, BLOCK_R=16, BLOCK_V=64, BLOCK_H=64, UPCAST=False)

# name: (kernel, data type, compile-time arguments, types that depend on the rule)
KERNELS = {
    "tree_attention bf16": (
        tree_attention.tree_attention_kernel, "bf16", ATTENTION | {"NUM_SPLITS": 1}, {}),
    "tree_attention fp16 split, page 1": (
        tree_attention.tree_attention_kernel, "fp16",
        ATTENTION | {"NUM_SPLITS": 8, "PAGE_SIZE": 1, "GROUP": 4, "HEAD_DIM": 96, "BLOCK_D": 128},
        {}),
    "tree_attention fp32": (
        tree_attention.tree_attention_kernel, "fp32",
        ATTENTION | {"NUM_SPLITS": 1, "BLOCK_M": 16, "BLOCK_N": 32}, {}),
    "combine_splits": (
        tree_attention.combine_splits_kernel, "bf16",
        {"HEAD_DIM": 64, "BLOCK_D": 64, "NUM_SPLITS": 8}, {}),
    "walk greedy": (
        acceptance.walk_kernel, "", {"RULE": 0},
        {"target": "*i64", "draft_probs": "*i64", "coins": "*i64"}),
    "walk delta": (acceptance.walk_kernel, "", {"RULE": 1}, {"target": "*fp32"}),
    "walk chain": (acceptance.walk_kernel, "", {"RULE": 2}, {"target": "*fp32"}),
    "block_topk": (draft_topk.block_topk_kernel, "bf16", HEAD, {}),
    "merge_topk": (
        draft_topk.merge_topk_kernel, "", {"K": 8, "BLOCK_B": 512, "BLOCK_C": 4096}, {}),
    "rms_norm": (rms_norm.rms_norm_kernel, "bf16", {"BLOCK": 1024, "HAS_RESIDUAL": False}, {}),
    "add_rms_norm": (rms_norm.rms_norm_kernel, "bf16", {"BLOCK": 1024, "HAS_RESIDUAL": True}, {}),
}  # fmt: skip


def source(kernel, data_type, constants, types):
    def type_of(name):
        if name in constants:
            return "constexpr"
        return types.get(name, NAMED.get(name, "i32")).replace("data", data_type)

    signature = {name: type_of(name) for name in kernel.arg_names}
    return ASTSource(fn=kernel, signature=signature, constexprs=constants)


def uncovered():
    """Kernels of the modules above that no entry compiles."""
    compiled = {kernel.__name__ for kernel, *_ in KERNELS.values()}
    modules = acceptance, draft_topk, rms_norm, tree_attention
    defined = {name for module in modules for name in vars(module) if name.endswith("_kernel")}
    return defined - compiled


if __name__ == "__main__":
    assert not uncovered(), f"never compiled: {uncovered()}"
    for name, arguments in KERNELS.items():
        for arch in sys.argv[1:]:
            code = triton.compile(source(*arguments), target=GPUTarget("cuda", int(arch), 32))
            assert f"sm_{arch}" in code.asm["ptx"], f"{name}: not code for sm_{arch}"
            print(f"{name}: sm_{arch} {len(code.asm['cubin'])} bytes", flush=True)
