"""What a server's /metrics page tells of its speculation: ours, vLLM's and SGLang's counters.

vLLM (vllm/v1/spec_decode/metrics.py at commit 016a8587): spec_decode_num_drafts, _num_draft_tokens,
_num_accepted_tokens and _num_accepted_tokens_per_pos, labelled with the position;
vllm/v1/metrics/loggers.py at commit 005a810b: num_preemptions. Ours has the same ones under its own
prefix. SGLang (python/sglang/srt/observability/metrics_collector.py at commit 016d8605):
spec_verify_calls, generation_tokens and num_requests, all of which grow when a request ends, and
num_retracted_requests for preemptions. Its gauges (spec_accept_length, spec_accept_rate,
num_retracted_reqs) are of the last moment, not of the run, and are left alone.
The client library puts "_total" behind the name of a counter, whether its source has it or not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lessons.lib.bench.run_ledger import EngineFacts

PREFIXES = ("specdec:", "vllm:")
DRAFTS = "spec_decode_num_drafts"
DRAFT_TOKENS = "spec_decode_num_draft_tokens"
ACCEPTED = "spec_decode_num_accepted_tokens"
ACCEPTED_AT = "spec_decode_num_accepted_tokens_per_pos"
PREEMPTIONS = ("num_preemptions", "sglang:num_retracted_requests")
SGLANG_ROUNDS = "sglang:spec_verify_calls"
SGLANG_TOKENS = "sglang:generation_tokens"
SGLANG_REQUESTS = "sglang:num_requests"

Json = dict[str, Any]
Counters = dict[tuple[str, int | None], float]  # (name, draft position where it has one)


def parse_counters(text: str) -> Counters | None:
    """Values of a Prometheus page, summed over engines and models but not over positions.

    Names without "_total", and without the prefix where it is one of PREFIXES. None for a page
    that is not in Prometheus' format.
    """
    counters: Counters = defaultdict(float)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_total")
                for prefix in PREFIXES:
                    name = name.removeprefix(prefix)
                position = sample.labels.get("position")
                counters[name, None if position is None else int(position)] += sample.value
    except ValueError:
        return None
    return dict(counters)


def grown(before: Counters, after: Counters) -> Counters:
    """By how much each counter grew; one that is new counted from 0."""
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def facts_of(setup: Json, counters: Counters) -> EngineFacts:
    """Acceptance and preemptions from counters that grew during a run."""
    found = [counters[name, None] for name in PREEMPTIONS if (name, None) in counters]
    preemptions = int(found[0]) if found else None
    if counters.get((DRAFTS, None)):
        return _by_position(setup, counters, preemptions)
    if counters.get((SGLANG_ROUNDS, None)):
        return _in_total(setup, counters, preemptions)
    reason = "/metrics has no speculative counters, or nothing was drafted"
    missing = dict.fromkeys(("acceptance", "acceptance_length", "verify_efficiency"), reason)
    return EngineFacts(setup, preemptions=preemptions, missing=missing)


def _by_position(setup: Json, counters: Counters, preemptions: int | None) -> EngineFacts:
    """Per-position counters over drafts are survival; conditional acceptance is their quotient.

    Only rounds that drafted are counted, so this is not what our own engine reports in process,
    which counts every round.
    """
    drafts, tokens = counters[DRAFTS, None], counters.get((DRAFT_TOKENS, None), 0.0)
    accepted = counters.get((ACCEPTED, None), 0.0)
    depth = 1 + max(
        (p for name, p in counters if name == ACCEPTED_AT and p is not None), default=-1
    )
    survival = [counters.get((ACCEPTED_AT, place), 0.0) / drafts for place in range(depth)]
    conditional = [
        now / before if before else None
        for before, now in zip([1.0, *survival], survival, strict=False)
    ]
    is_full = tokens == drafts * depth
    return EngineFacts(
        setup,
        acceptance={
            "survival": survival,
            "conditional": conditional,
            "proposed": [1.0] * depth if is_full else None,
        },
        acceptance_length=1 + accepted / drafts,
        verify_efficiency=(accepted + drafts) / (tokens + drafts),
        preemptions=preemptions,
        missing={} if is_full else {"acceptance.proposed": "counted in total, not by position"},
    )


def _in_total(setup: Json, counters: Counters, preemptions: int | None) -> EngineFacts:
    """Tokens over verify calls, the first token of each request left out: the prefill gave it."""
    tokens = counters.get((SGLANG_TOKENS, None), 0.0) - counters.get((SGLANG_REQUESTS, None), 0.0)
    reason = "SGLang counts verify calls and tokens in total, not by position"
    return EngineFacts(
        setup,
        acceptance_length=tokens / counters[SGLANG_ROUNDS, None],
        preemptions=preemptions,
        missing={"acceptance": reason, "verify_efficiency": reason},
    )
