"""What a worker of the cluster tests loads first: figures instead of a measurement."""

import dataclasses
import tempfile
from pathlib import Path

from classroom_kit import fixed_figures

from autograder.checks import figures

figures._measure = lambda: dataclasses.replace(fixed_figures(), device="the worker with the GPU")
figures.CACHE = Path(tempfile.mkdtemp()) / "figures.json"
