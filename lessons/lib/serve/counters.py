"""What the server counts, for Prometheus: totals since it started, and what it holds now.

Speculative counters have vLLM's meaning (vllm/v1/spec_decode/metrics.py at commit 016a8587): a
draft is a round that proposed something, and the position of an accepted token counts from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from lessons.lib.engine import Engine
from lessons.lib.metrics import StepRecord

PREFIX = "specdec"
_HELP = {
    "num_requests": "Requests that were accepted.",
    "num_rejected": "Requests that were turned away because the queue was full.",
    "num_cancelled": "Requests whose client left before the end.",
    "prompt_tokens": "Prompt tokens of accepted requests.",
    "generation_tokens": "Tokens emitted.",
    "num_steps": "Steps of the engine.",
    "num_preemptions": "Requests that lost their pages and were computed again.",
    "spec_decode_num_drafts": "Rounds in which something was drafted.",
    "spec_decode_num_draft_tokens": "Tokens drafted.",
    "spec_decode_num_accepted_tokens": "Drafted tokens that were accepted.",
}
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"


class ServingCounters:
    """Hears of steps in the engine's thread and of requests in the server's; each name is written
    by one of the two. Also the collector that Prometheus asks."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.accepted_at: Counter[int] = Counter()
        self.gauges: dict[str, float] = {}

    def __call__(self, engine: Engine, record: StepRecord) -> None:
        """One step of the engine."""
        self.totals["num_steps"] += 1
        self.totals["num_preemptions"] += len(record.preempted)
        for round_ in record.rounds.values():
            if round_.proposed:
                self.totals["spec_decode_num_drafts"] += 1
                self.totals["spec_decode_num_draft_tokens"] += round_.proposed
                self.totals["spec_decode_num_accepted_tokens"] += round_.accepted
                self.accepted_at.update(range(round_.accepted))

    def look(self, engine: Engine, num_open: int) -> None:
        """What the engine holds now; call it in the engine's thread. num_open: requests in all."""
        allocator = engine.pool.allocator
        self.gauges = {
            "num_requests_running": len(engine.running),
            "num_requests_waiting": max(num_open - len(engine.running), 0),
            "kv_pages_used": allocator.num_owned,
            "kv_pages_available": allocator.num_available,
        }

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client."""
        for name, text in _HELP.items():
            yield CounterMetricFamily(f"{PREFIX}:{name}", text, value=self.totals[name])
        accepted = CounterMetricFamily(
            f"{PREFIX}:{_PER_POSITION}", "Accepted tokens by position.", labels=["position"]
        )
        for position, count in sorted(self.accepted_at.items()):
            accepted.add_metric([str(position)], count)
        yield accepted
        for name, value in self.gauges.items():
            yield GaugeMetricFamily(f"{PREFIX}:{name}", name.replace("_", " "), value=value)

    def page(self) -> bytes:
        """The text of /metrics."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)
