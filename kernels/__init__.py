"""Tensor operations of the engine; they know no model and no lesson."""

import os

# OpenMP workers spin while they wait. On a machine shared with other programs long spinning takes
# the cores from those who have work: two decoding at once, with GOMP_SPINCOUNT=10000, took 140 ms a
# step each where they take 42 with the setting below. Asleep, that cannot happen; but to wake one
# costs more than a small product, and a step has 150 of those. So they spin for some microseconds,
# then sleep; a command that measures, and wants the machine for itself, lets them spin longer
# (course/results/engine_cpu.json; `bench-engine --parts openmp` measures it again).
# Read once, when torch loads OpenMP, so it has to stand before the first import of torch.
SHARED, ALONE = "1000", "10000"  # GOMP_SPINCOUNT, libgomp's own; others ignore it
_GIVEN = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ)

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if os.environ["OMP_WAIT_POLICY"].lower() == "passive":
    os.environ.setdefault("GOMP_SPINCOUNT", SHARED)


def take_the_machine() -> None:
    """Let OpenMP's workers spin longer, in this process and its children; what the user has set
    stands. Call before torch is imported."""
    if not _GIVEN:
        os.environ["GOMP_SPINCOUNT"] = ALONE
