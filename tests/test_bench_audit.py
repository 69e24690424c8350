"""Each rule has a ledger that breaks it and nothing else; a clean ledger passes them all."""

import copy
import json

import pytest
import serving_kit

from lessons.lib.bench import audit, run_ledger
from lessons.lib.cli import main


@pytest.fixture(scope="module")
def clean():
    return serving_kit.clean_ledger()


def drafted(ledger):
    return next(point for point in ledger["points"] if point["method"] != "baseline")


def one_category(ledger):
    for point in ledger["points"]:
        point["workload"]["kinds"] = {"code": 20, "chat": 0}


def random_tokens(ledger):
    for point in ledger["points"]:
        point["workload"]["source"] = "random"


def repeated_prompts(ledger):
    drafted(ledger)["workload"]["num_distinct"] = 3


def not_held_out(ledger):
    for point in ledger["points"]:
        point["workload"]["split"] = "main"


def keep(ledger, wanted):
    ledger["points"] = [point for point in ledger["points"] if wanted(point)]


def closed_only(ledger):
    keep(ledger, lambda point: point["arrivals"]["loop"] == "closed")


def batch_one(ledger):
    keep(ledger, lambda point: point["arrivals"].get("concurrency", 1) == 1)


def one_seed(ledger):
    for point in ledger["points"]:
        point["seed"], point["block"] = 0, 2 * point["seed"] + point["block"]


def few_blocks(ledger):
    keep(ledger, lambda point: point["block"] == 0)


def no_baseline(ledger):
    keep(ledger, lambda p: p["method"] != "baseline" or p["arrivals"]["loop"] == "closed")


def eager_baseline(ledger):
    for point in ledger["points"]:
        if point["method"] == "baseline":
            point["setup"]["graphs"] = False


def eager_on_a_card(ledger):
    ledger["machine"]["gpu"] = "a card"
    for point in ledger["points"]:
        point["setup"]["graphs"] = False


def other_requests(ledger):
    drafted(ledger)["workload"]["fingerprint"] = "0" * 16


def one_stretch(ledger):
    ledger["points"].sort(key=lambda point: point["method"])


def shorter_answers(ledger):
    for point in ledger["points"]:
        if point["method"] != "baseline":
            for request in point["requests"].values():
                request["output_tokens"] -= 1


def itl(ledger):
    ledger["comparisons"][0]["metric"] = "itl_ms.p50"


def no_convention(ledger):
    del drafted(ledger)["counts_bonus"]


def late(ledger):
    next(p for p in ledger["points"] if p["arrivals"]["loop"] == "open")["validity"][
        "late_share"
    ] = 0.05


def lost(ledger):
    drafted(ledger)["validity"]["little_gap"] = 0.03


def no_warm_up(ledger):
    drafted(ledger)["warm_up"]["num_requests"] = 0


def warm_up_counted(ledger):
    drafted(ledger)["warm_up"]["in_figures"] = True


def failures(ledger):
    drafted(ledger)["figures"]["num_failed"] = 2


def silent_null(ledger):
    drafted(ledger)["preemptions"] = None


def silent_figure(ledger):
    drafted(ledger)["figures"]["missing"].pop("ttft_ms.p99")


def silent_memory(ledger):
    drafted(ledger)["missing"].pop("memory_gb.graphs")


def dirty(ledger):
    ledger["commit"] += "-dirty"


def no_commit(ledger):
    ledger["commit"] = None


def empty(ledger):
    ledger["points"] = []


BROKEN = [
    (empty, "no-points"),
    (one_category, "one-category-only"),
    (random_tokens, "random-tokens"),
    (repeated_prompts, "repeated-prompts"),
    (not_held_out, "not-held-out"),
    (closed_only, "closed-loop-only"),
    (batch_one, "batch-one-only"),
    (one_seed, "no-spread"),
    (few_blocks, "no-spread"),
    (no_baseline, "no-baseline"),
    (eager_baseline, "baseline-differs"),
    (eager_on_a_card, "baseline-without-graphs"),
    (other_requests, "different-requests"),
    (one_stretch, "not-interleaved"),
    (shorter_answers, "different-output-lengths"),
    (itl, "itl-as-per-token"),
    (no_convention, "acceptance-without-convention"),
    (late, "driver-late"),
    (lost, "littles-law"),
    (no_warm_up, "warm-up-inside"),
    (warm_up_counted, "warm-up-inside"),
    (failures, "failed-requests"),
    (silent_null, "null-without-reason"),
    (silent_figure, "null-without-reason"),
    (silent_memory, "null-without-reason"),
    (dirty, "unknown-code"),
    (no_commit, "unknown-code"),
]


def test_a_clean_ledger_passes_every_rule(clean):
    assert audit.audit(clean) == []


@pytest.mark.parametrize(("breaking", "rule"), BROKEN, ids=[b.__name__ for b, _ in BROKEN])
def test_each_rule_finds_its_fault_and_no_other_does(clean, breaking, rule):
    ledger = copy.deepcopy(clean)
    breaking(ledger)
    findings = audit.audit(ledger)
    assert {finding.rule for finding in findings} == {rule}
    assert all(finding.text for finding in findings)


def test_every_rule_has_a_ledger_that_breaks_it():
    assert {rule for _, rule in BROKEN} == set(audit.RULES)


def test_lengths_that_differ_by_chance_are_no_finding(clean):
    ledger = copy.deepcopy(clean)
    for point in ledger["points"]:
        if point["method"] != "baseline":
            for place, request in enumerate(point["requests"].values()):
                request["output_tokens"] += 3 * (-1) ** place
    assert audit.audit(ledger) == []


def test_the_command(clean, tmp_path, capsys):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(clean))
    assert main(["bench-audit", str(path)]) == 0
    assert "0 findings" in capsys.readouterr().out
    broken = copy.deepcopy(clean)
    dirty(broken)
    path.write_text(json.dumps(broken))
    assert main(["bench-audit", str(path)]) == 1
    assert capsys.readouterr().out.startswith("unknown-code: commit 000")
    path.write_text(json.dumps(clean | {"schema": "other"}))
    assert main(["bench-audit", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and run_ledger.SCHEMA in captured.err


def test_other_software_may_differ_from_the_baseline(clean):
    ledger = copy.deepcopy(clean)
    for point in ledger["points"]:
        if point["method"] != "baseline":
            point["setup"] = {"engine": "another", "is_peer": True}
    assert audit.audit(ledger) == []
    for point in ledger["points"]:
        point["setup"].pop("is_peer", None)
    assert {finding.rule for finding in audit.audit(ledger)} == {"baseline-differs"}
