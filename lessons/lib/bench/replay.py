"""A run in the model's own time: which TPOT the round model says for these requests, this load.

A round of B requests takes R(B) ms and brings each tau tokens, so alone they would have a TPOT of
R(B) / tau. Two things are missing in that. Every prompt is computed inside somebody else's step: in
a steady closed loop of B users each request is prefilled once while the others decode, so a request
of N tokens decodes through B - 1 prefills of P ms, and

    TPOT = R(B) / tau + (B - 1) * P / (N - 1).

The second term knows nothing of speculation, which is why gains shrink under load even where the
rounds alone would not. And a run is not steady: it begins with B prompts at once and ends with a
batch that runs empty, and in an open loop B is what the arrivals make of it. So the run is played
step by step, as the scheduler would: rounds first, then chunks of prompts up to the token budget.
With equal requests and a long run it gives the formula back (tests/test_bench_replay.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lessons.lib.bench.arrivals import Arrivals, OpenLoop


@dataclass(frozen=True)
class RunLaw:
    """What steps cost; times in ms.

    round_ms    (requests that decode) -> a step in which nobody prefills, drafting included
    chunk_ms    (rows of rounds, rows of chunks) -> what the chunks add to that step
    rows        mean rows of a request in a round: one more than its drafts
    prefill_ms  what a prompt costs beside the forward
    """

    round_ms: Callable[[int], float]
    chunk_ms: Callable[[float, int], float]
    rows: float
    prefill_ms: float
    max_running: int
    token_budget: int


@dataclass
class _Played:
    """A request on its way: prompt tokens to compute, then rounds to go."""

    output_tokens: int
    prompt_left: int
    rounds_left: int
    first_token_ms: float = math.nan


@dataclass
class _Run:
    """What is where. `coming` is (ms, request) in an open loop; in a closed one all come at once
    and `users` limits how many are in."""

    coming: deque[tuple[float, _Played]]
    users: int
    running: list[_Played] = field(default_factory=list)
    now_ms: float = 0.0

    def admit(self) -> None:
        """Let in whoever has come; where nobody is in, wait for the next."""
        if not self.running:
            self.now_ms = max(self.now_ms, self.coming[0][0])
        while self.coming and len(self.running) < self.users and self.coming[0][0] <= self.now_ms:
            self.running.append(self.coming.popleft()[1])


def tpots_ms(
    law: RunLaw,
    load: Arrivals,
    prompt_tokens: int,
    answers: Sequence[tuple[int, int]],
    seed: int,
) -> list[float]:
    """TPOT of every request that has more than one token, in the order in which they end.

    prompt_tokens: of each request, the mean. answers: (tokens, rounds) of each in the order of
    arrival; the first token is the prefill's, so without drafts there are tokens - 1 rounds.
    seed: of the schedule of an open loop, as for `driver.drive`.
    """
    played = [_Played(tokens, max(prompt_tokens, 1), rounds) for tokens, rounds in answers]
    if isinstance(load, OpenLoop):
        times = [1000 * float(time) for time in load.times(len(played), seed)]
        run = _Run(deque(zip(times, played, strict=True)), law.max_running)
    else:
        users = min(load.concurrency, law.max_running)
        run = _Run(deque((0.0, request) for request in played), users)
    found: list[float] = []
    while run.coming or run.running:
        run.admit()
        for request in _step(law, run):
            run.running.remove(request)
            if request.output_tokens > 1:
                taken = run.now_ms - request.first_token_ms
                found.append(taken / (request.output_tokens - 1))
    return found


def _step(law: RunLaw, run: _Run) -> list[_Played]:
    """One forward of everybody's round and of chunks of prompts; returns who is done."""
    decoding = [request for request in run.running if not request.prompt_left]
    rows = law.rows * len(decoding)
    room = max(1, law.token_budget - math.ceil(rows))
    chunk_rows = 0
    started: list[_Played] = []
    for request in run.running:
        if request.prompt_left and chunk_rows < room:
            taken = min(request.prompt_left, room - chunk_rows)
            request.prompt_left -= taken
            chunk_rows += taken
            started += [] if request.prompt_left else [request]
    run.now_ms += law.round_ms(len(decoding)) if decoding else 0.0
    run.now_ms += law.chunk_ms(rows, chunk_rows) if chunk_rows else 0.0
    run.now_ms += law.prefill_ms * len(started)
    for request in started:
        request.first_token_ms = run.now_ms
    for request in decoding:
        request.rounds_left -= 1
    ended = [request for request in decoding if not request.rounds_left]
    return ended + [request for request in started if not request.rounds_left]
