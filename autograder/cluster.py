"""Judge on a Dask cluster: the same function, on machines that hold this repository too.

Only judging is sent out; the process that asks keeps classroom, gradebook and nbgrader. Dask runs
again what a lost worker had in hand. Its connections are open to all who reach them: use it inside
a trusted network. Give a worker that has a GPU `--resources GPU=1`: the engine is measured there,
and the checks that rest on these figures are made there; all others are made anywhere.
"""

import contextlib
from collections.abc import Collection, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from autograder.assignment import ROOT
from autograder.judge import card_checks, checks_of
from autograder.parallel import Figures, Task, judge_task, measured_figures
from autograder.status import fingerprint
from autograder.submissions import source_digest
from autograder.verdict import Judgement

CONNECT_S = 10
GPU = {"GPU": 1}


class ClusterError(ValueError):
    """The cluster cannot judge; the message says what to do."""


def worker_digest() -> str:
    """Changes when anything does that changes a verdict on a worker, which builds the lesson."""
    lessons = sorted(ROOT.glob("lessons/*.qmd"))
    return fingerprint([*lessons, ROOT / "solutions", ROOT / "course/render"], source_digest())


def judge_there(task: Task, skip: Collection[str], digest: str) -> dict[str, Any]:
    """`judge_task`, on a worker: one that joined later may run other sources. Raises ClusterError.

    A process that had loaded its sources before they changed is found when the run begins.
    """
    if worker_digest() != digest:
        raise ClusterError("a worker does not run the sources that this grader runs")
    return judge_task(task, skip)


def put_together(unit: str, rest: dict[str, Any], card: dict[str, Any]) -> dict[str, Any]:
    """One judgement of two: the checks of `card` that `rest` has skipped, in the unit's order."""
    parts = Judgement.from_json(rest), Judgement.from_json(card)
    found = {check.id: check for part in reversed(parts) for check in part.checks}
    order = dict.fromkeys([*checks_of(unit).CHECKS, *found])
    isolation = " and ".join(dict.fromkeys(part.isolation for part in parts))
    return Judgement(unit, isolation, tuple(found[name] for name in order)).to_json()


@dataclass
class _Parts(Executor):
    """Judges on the workers; where `client` is given, the card's checks on those with a GPU."""

    workers: Executor
    client: Any
    digest: str

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future:
        """`function` is `judge_task`, `args` its task."""
        (task,) = args
        on_card = card_checks(task.unit) if self.client else frozenset()
        if not on_card:
            return self.workers.submit(judge_there, task, (), self.digest)
        others = frozenset(checks_of(task.unit).CHECKS) - on_card
        ask = self.client.submit
        rest = ask(judge_there, task, on_card, self.digest, pure=False)
        card = ask(judge_there, task, others, self.digest, pure=False, resources=GPU)
        return self.workers.submit(put_together, task.unit, rest, card)


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
        found = self.client.run(worker_digest, on_error="return")
        ours = worker_digest()
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
            yield _Parts(executor, self.client if self.has_gpu else None, worker_digest())
        finally:
            executor.shutdown(wait=False)

    def figures(self) -> Figures:
        """Measured on a worker with a GPU where there is one, else here."""
        if not self.has_gpu:
            return measured_figures()
        return self.client.submit(measured_figures, resources=GPU, pure=False).result()
