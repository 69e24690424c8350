"""Tensor operations of the engine; they know no model and no lesson."""

import os

# OpenMP workers spin while they wait. On a machine shared with other programs long spinning takes
# the cores from those who have work, and a decode step slows down tenfold; asleep, it does not. But
# to wake one costs more than a small product, and a step has 150 of those: so they spin for some
# microseconds, then sleep. On a machine of one's own GOMP_SPINCOUNT=10000 is faster, and so is
# OMP_WAIT_POLICY=active: course/results/engine_cpu.json has a decode step of 33 ms asleep, 30 with
# these settings, 24 with 10000 and 25 active. `bench-engine --parts openmp` measures it again.
# Read once, when torch loads OpenMP, so it has to stand before the first import of torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if os.environ["OMP_WAIT_POLICY"].lower() == "passive":
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # libgomp's own; others ignore it
