"""Tensor operations of the engine; they know no model and no lesson."""

import os

# OpenMP workers spin while they wait. On a machine shared with other programs the spinning takes
# the cores from those who have work, and a decode step slows down tenfold; asleep, it does not.
# Read once, when torch loads OpenMP, so it has to stand before the first import of torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
