"""The engine, readable end to end, CPU first."""

import kernels  # noqa: F401  (decides how OpenMP waits, before any module here imports torch)
