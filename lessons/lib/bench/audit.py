"""How a serving result could mislead: rules over a ledger, each with what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessons.lib.bench.bootstrap import MIN_BLOCKS
from lessons.lib.bench.driver import LATE_SHARE, LITTLE_GAP
from lessons.lib.bench.latency import FIGURES
from lessons.lib.bench.run import BASELINE
from lessons.lib.bench.run_ledger import length_parity, load_name, point_key
from lessons.lib.bench.workload import HELD_OUT

MIN_SEEDS = 3
NESTED = (*FIGURES, "lateness_ms", "memory_gb", "phase_shares", "acceptance")
LENGTH_GAP = 0.02  # mean output may differ by so much from target-only's on the same requests

Json = dict[str, Any]
Rule = Callable[[Json], Iterator[str]]

RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Finding:
    """One way in which this ledger could mislead."""

    rule: str
    text: str


def audit(ledger: Json) -> list[Finding]:
    """All findings, in the order of the rules; empty for a clean ledger."""
    return [Finding(name, text) for name, rule in RULES.items() for text in rule(ledger)]


def _rule(function: Rule) -> Rule:
    RULES[function.__name__.strip("_").replace("_", "-")] = function
    return function


@_rule
def _no_points(ledger: Json) -> Iterator[str]:
    if not ledger["points"]:
        yield "the ledger holds no measurement"


@_rule
def _one_category_only(ledger: Json) -> Iterator[str]:
    kinds = {k for p in ledger["points"] for k, n in p["workload"]["kinds"].items() if n}
    if len(kinds) == 1:
        yield f"all requests are {kinds.pop()!r}: acceptance differs by category; use a mixture"


@_rule
def _random_tokens(ledger: Json) -> Iterator[str]:
    if any(p["workload"]["source"] != "text" for p in ledger["points"]):
        yield "requests are not text: random tokens inflate acceptance; use real prompts"


@_rule
def _repeated_prompts(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        work = point["workload"]
        if work["num_distinct"] < work["num_requests"]:
            yield (
                f"{_name(point)}: {work['num_distinct']} distinct prompts in "
                f"{work['num_requests']} requests; a cache or a drafter has seen the rest"
            )


@_rule
def _not_held_out(ledger: Json) -> Iterator[str]:
    if any(p["workload"]["split"] not in HELD_OUT for p in ledger["points"]):
        yield "prompts are not held out: drafters and settings may have been tuned on them"


@_rule
def _closed_loop_only(ledger: Json) -> Iterator[str]:
    if {p["arrivals"]["loop"] for p in ledger["points"]} == {"closed"}:
        yield "closed loop only: its users wait for the system, so queues stay hidden; add rates"


@_rule
def _batch_one_only(ledger: Json) -> Iterator[str]:
    closed = {
        p["arrivals"]["concurrency"] for p in ledger["points"] if p["arrivals"]["loop"] == "closed"
    }
    if closed == {1}:
        yield "concurrency 1 only: gains shrink as batches grow; add higher concurrency"


@_rule
def _no_spread(ledger: Json) -> Iterator[str]:
    for (method, load), points in _groups(ledger).items():
        seeds = {point["seed"] for point in points}
        if len(seeds) < MIN_SEEDS or len(points) < MIN_BLOCKS:
            yield (
                f"{method} at {load}: {len(points)} blocks of {len(seeds)} seeds show no spread; "
                f"measure {MIN_BLOCKS} blocks and {MIN_SEEDS} seeds at least"
            )


@_rule
def _no_baseline(ledger: Json) -> Iterator[str]:
    groups = _groups(ledger)
    for method, load in groups:
        if (BASELINE, load) not in groups:
            yield f"{method} at {load}: target-only was not measured at this load"


@_rule
def _baseline_differs(ledger: Json) -> Iterator[str]:
    """Other software differs by design, and the report says that its ratio is not speculation's."""
    for point, base in _pairs(ledger):
        if point["setup"] != base["setup"] and not point["setup"].get("is_peer"):
            keys = sorted(
                key
                for key in point["setup"].keys() | base["setup"].keys()
                if point["setup"].get(key) != base["setup"].get(key)
            )
            yield (
                f"{_name(point)}: the baseline ran with another {', '.join(keys)}; "
                "the gain may be that and not speculation"
            )


@_rule
def _baseline_without_graphs(ledger: Json) -> Iterator[str]:
    if ledger["machine"]["gpu"] is None:
        return
    for point in ledger["points"]:
        if point["method"] == BASELINE and not point["setup"].get("graphs"):
            yield f"{_name(point)}: on a card target-only needs graphs, or launches slow it down"


@_rule
def _different_requests(ledger: Json) -> Iterator[str]:
    for point, base in _pairs(ledger):
        if point["workload"]["fingerprint"] != base["workload"]["fingerprint"]:
            yield f"{_name(point)}: the baseline of its block had other requests"


@_rule
def _not_interleaved(ledger: Json) -> Iterator[str]:
    """All blocks of one method in one stretch: what the machine did meanwhile looks like a gain."""
    for load in {load for _, load in _groups(ledger)}:
        order = [p["method"] for p in ledger["points"] if load_name(p["arrivals"]) == load]
        stretches = 1 + sum(a != b for a, b in zip(order, order[1:], strict=False))
        methods = Counter(order)
        if len(methods) > 1 and min(methods.values()) > 1 and stretches == len(methods):
            yield f"{load}: each method ran in one stretch; interleave them by blocks"


@_rule
def _different_output_lengths(ledger: Json) -> Iterator[str]:
    """Over all blocks of a load, since sampled answers differ in length by chance."""
    for row in length_parity(ledger["points"]):
        ours, theirs = row["tokens"], row["target_only_tokens"]
        if abs(ours - theirs) > max(LENGTH_GAP * theirs, 3 * row["error"]):
            yield (
                f"{row['method']} at {row['load']}: answers of {ours:.1f} tokens against "
                f"target-only's {theirs:.1f} to the same requests; speculation must not change "
                "what is said"
            )


@_rule
def _itl_as_per_token(ledger: Json) -> Iterator[str]:
    for row in ledger.get("comparisons", ()):
        if row["metric"].startswith("itl"):
            yield (
                f"{row['method']} is compared by {row['metric']}: a gap between chunks is no time "
                "per token once chunks carry several; compare TPOT"
            )


@_rule
def _acceptance_without_convention(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        if point["acceptance_length"] is not None and point.get("counts_bonus") is None:
            yield f"{_name(point)}: acceptance length does not say whether the bonus counts"


@_rule
def _driver_late(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        share = point["validity"]["late_share"]
        if share is not None and share > LATE_SHARE:
            yield f"{_name(point)}: {share:.1%} of requests left late; the load was another one"


@_rule
def _littles_law(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        gap = point["validity"]["little_gap"]
        if gap > LITTLE_GAP:
            yield f"{_name(point)}: rate times time is {gap:.1%} off the number under way"


@_rule
def _warm_up_inside(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        warm_up = point["warm_up"]
        if warm_up["in_figures"] or not warm_up["num_requests"]:
            yield f"{_name(point)}: first calls compile and allocate; warm up and leave it out"


@_rule
def _failed_requests(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        if point["figures"]["num_failed"]:
            yield (
                f"{_name(point)}: {point['figures']['num_failed']} of "
                f"{point['figures']['num_requests']} requests failed and are in no percentile"
            )


@_rule
def _null_without_reason(ledger: Json) -> Iterator[str]:
    for point in ledger["points"]:
        for part in (point, point["figures"]):
            for name in _nulls(part):
                if name not in part["missing"]:
                    yield f"{_name(point)}: {name} is null and nothing says why"


def _nulls(part: Json) -> Iterator[str]:
    """Dotted names of what is null, one level deep; a limit that was not set is no figure."""
    for key, value in part.items():
        if value is None:
            yield key
        elif isinstance(value, dict) and key in NESTED:
            yield from (f"{key}.{inner}" for inner, found in value.items() if found is None)


@_rule
def _unknown_code(ledger: Json) -> Iterator[str]:
    commit = ledger["commit"]
    if commit is None or commit.endswith("-dirty"):
        yield f"commit {commit}: nobody can run this code again; commit, then measure"


def _groups(ledger: Json) -> dict[tuple[str, str], list[Json]]:
    groups: dict[tuple[str, str], list[Json]] = {}
    for point in ledger["points"]:
        groups.setdefault((point["method"], load_name(point["arrivals"])), []).append(point)
    return groups


def _pairs(ledger: Json) -> Iterator[tuple[Json, Json]]:
    """Every point of a method with target-only's of the same load, seed and block."""
    found = {point_key(point): point for point in ledger["points"]}
    for (method, load, seed, block), point in found.items():
        base = found.get((BASELINE, load, seed, block))
        if method != BASELINE and base is not None:
            yield point, base


def _name(point: Json) -> str:
    return "{}, {}, seed {}, block {}".format(*point_key(point))


def describe(findings: Sequence[Finding], path: Path) -> str:
    """The findings for reading, one a line, and how many rules looked for them."""
    lines = [f"{finding.rule}: {finding.text}" for finding in findings]
    return "\n".join([*lines, f"{len(findings)} findings from {len(RULES)} rules in {path}"])
