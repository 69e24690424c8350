"""Judge many submissions at once: on the cores of this machine, or wherever a pool sends them.

A judge's process gets plain data (a notebook's bytes, the seed, the measured figures) and gives
plain data back. It knows no classroom and no gradebook: those belong to the process that asks.
"""

import contextlib
import itertools
import multiprocessing
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from autograder import handed_in
from autograder.checks import figures
from autograder.judge import judge

MODULES = ["autograder.parallel", "autograder.assignment"]  # imported once for all processes
QUEUED = 2  # submissions in hand for each process: it never waits, and memory stays small

Figures = dict[str, Any] | str


class JudgeDied(RuntimeError):
    """The process that judged a submission was killed, twice; other submissions go on."""


@dataclass(frozen=True)
class Task:
    """What a verdict depends on. `figures` are those measured, or why there are none."""

    student: str
    notebook: bytes
    unit: str
    seed: int
    figures: Figures


Result = dict[str, Any] | Exception


class Pool(Protocol):
    """Where judging happens: `size` places, opened as an executor of the standard library."""

    @property
    def size(self) -> int: ...

    def open(self) -> AbstractContextManager[Executor]: ...

    def figures(self) -> Figures: ...


@dataclass(frozen=True)
class Processes:
    """Processes of this machine; one means: in this process."""

    size: int = 1

    def open(self) -> AbstractContextManager[Executor]:
        return _Here() if self.size == 1 else _processes(self.size)

    def figures(self) -> Figures:
        return measured_figures()


class _Here(Executor):
    """Runs what is submitted at once."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def measured_figures() -> Figures:
    """The grader's figures as plain data: measured here, once, while nothing else runs."""
    try:
        return asdict(figures.measured())
    except figures.FiguresError as error:
        return str(error)


def judge_task(task: Task, skip: Collection[str] = ()) -> dict[str, Any]:
    """The judgement of a submission as plain data; the same on any machine that sandboxes.

    Without the checks in `skip`.
    """

    def given() -> figures.Figures:
        if isinstance(task.figures, str):
            raise figures.FiguresError(task.figures)
        return figures.Figures(**task.figures)

    notebook = handed_in.read(task.notebook)
    return judge(notebook, task.unit, task.seed, figures=given, skip=skip).to_json()


def judge_all(tasks: Iterable[Task], pool: Pool) -> Iterator[tuple[Task, Result]]:
    """Every task with its judgement, or with the exception that stopped it, as they come.

    `tasks` is read as needed.
    """
    waiting = iter(tasks)
    num_queued = 1 if pool.size == 1 else pool.size * QUEUED
    while True:
        lost: list[Task] = []
        with pool.open() as executor:
            yield from _judge_on(executor, waiting, num_queued, lost)
        if not lost:
            return
        # A process was killed, and its neighbours with it: which submission did it?
        for task in lost:
            yield task, _result(_judge_alone, task)


def _judge_on(
    executor: Executor, waiting: Iterator[Task], num_queued: int, lost: list[Task]
) -> Iterator[tuple[Task, Result]]:
    """Judge until nothing waits, or until a process dies: then `lost` has what was in hand."""
    running: dict[Future, Task] = {}
    while True:
        for task in itertools.islice(waiting, num_queued - len(running)):
            try:
                running[executor.submit(judge_task, task)] = task
            except BrokenExecutor:
                lost.append(task)
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            task, result = running.pop(future), _result(future.result)
            if isinstance(result, BrokenExecutor):
                lost.append(task)
            else:
                yield task, result
        if lost:
            waiting = iter(())  # the rest is for the next processes


def _judge_alone(task: Task) -> dict[str, Any]:
    with _processes(1) as executor:
        try:
            return executor.submit(judge_task, task).result()
        except BrokenExecutor:
            raise JudgeDied(
                f"the process that judged {task.student} was killed; is there enough memory?"
            ) from None


def _result(function: Any, *args: Any) -> Result:
    try:
        return function(*args)
    except Exception as error:
        return error


@contextlib.contextmanager
def _processes(num_jobs: int) -> Iterator[Executor]:
    """Processes that share nothing with this one, and end when it ends, however it does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    executor = ProcessPoolExecutor(num_jobs, context, initializer=_end_with_parent)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A judge whose grader was killed must not stay; its sandbox ends with it."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
