"""Judge on a Dask cluster: the same function, on machines that hold this repository too.

Only judging is sent out; the process that asks keeps classroom, gradebook and nbgrader. Dask runs
again what a lost worker had in hand. Its connections are open to all who reach them: use it inside
a trusted network. Give a worker that has a GPU `--resources GPU=1`: the engine is measured there.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from autograder.parallel import Figures, measured_figures
from autograder.submissions import source_digest

CONNECT_S = 10
GPU = {"GPU": 1}


class ClusterError(ValueError):
    """The cluster cannot judge; the message says what to do."""


class Cluster:
    """The workers of a Dask scheduler, as a pool for `judge_all`. Raises ClusterError."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError("--cluster needs Dask; run: pip install -e '.[cluster]'") from None
        try:
            self.client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{address}: no Dask scheduler answers there ({error})") from None
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise ClusterError(f"{address}: no worker there; start one with: dask worker {address}")
        self.size = sum(worker["nthreads"] for worker in workers.values())
        self.has_gpu = any("GPU" in worker["resources"] for worker in workers.values())
        self._require_same_sources()

    def _require_same_sources(self) -> None:
        """A worker with other checks would give other verdicts."""
        found = self.client.run(source_digest, on_error="return")
        ours = source_digest()
        for worker, digest in sorted(found.items()):
            if digest != ours:
                why = f" ({digest})" if isinstance(digest, Exception) else ""
                raise ClusterError(
                    f"worker {worker} does not run these sources{why}; start it again in a copy of"
                    " this repository at this commit"
                )

    @contextlib.contextmanager
    def open(self) -> Iterator[Executor]:
        """An executor on the workers; what is not done when it closes is cancelled."""
        executor = self.client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)

    def figures(self) -> Figures:
        """Measured on a worker with a GPU where there is one, else here."""
        if not self.has_gpu:
            return measured_figures()
        return self.client.submit(measured_figures, resources=GPU, pure=False).result()
