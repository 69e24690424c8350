"""The goals on made-up rows: who is judged, what counts as met, and which term explains a miss."""

import pytest

from kernels.runtime import InputError
from lessons.lib.bench.compare_goals import costliest, goal_rows
from lessons.lib.bench.compare_plan import (
    STAGES,
    best_depth,
    forecast,
    stage_specs,
    step_times,
    sweep_specs,
)
from lessons.lib.bench.compare_report import best_table, paced_table, path_rows, path_table


def row(name, kind="json", speedup=1.0, tokens=1.0, times=(0.0, 20.0, 1.0), stage="depths"):
    method, _, depth = name.partition("-")
    draft, verify, overhead = times
    survival = [(tokens - 1) / 4] * 4
    total = sum(times)
    return {
        "stage": stage,
        "category": kind,
        "name": name,
        "method": method,
        "depth": int(depth) if depth.isdigit() else 7,
        "speedup": {"median": speedup, "p25": speedup - 0.1, "p75": speedup + 0.1},
        "predicted_speedup": speedup,
        "residual": 0.0,
        "forecast_speedup": None,
        "acceptance_length": tokens,
        "acceptance": {"survival": survival, "conditional": [], "proposed": [1.0] * 4},
        "phase_ms": {"draft": draft, "verify": verify, "overhead": overhead, "total": total},
        "shares": {"draft": draft / total, "verify": verify / total, "overhead": overhead / total},
        "draft_passes": {"passes": 40, "rounds": 10, "drafts": 40},
    }


PLAIN = row("baseline")


def judged(rows):
    return {(found["goal"], found["kind"]): found for found in goal_rows(rows)}


@pytest.mark.parametrize(
    "tokens, times, told",
    [
        (1.4, (1.0, 20.0, 1.0), "acceptance: 1.40 tokens a round, so below 1.5x at any price"),
        (2.0, (9.0, 21.0, 2.0), "draft: 9.0 of 32.0 ms beyond a plain step's 21.0; 1.83x without"),
        (2.0, (2.0, 30.0, 2.0), "verify: 10.0 of 34.0 ms"),
        (2.0, (2.0, 21.0, 9.0), "overhead: 8.0 of 32.0 ms"),
    ],
)
def test_a_miss_names_the_term_that_costs_most(tokens, times, told):
    assert costliest(row("mtp-4", tokens=tokens, times=times), PLAIN, 1.5).startswith(told)


def test_speed_goals_take_the_best_method_of_the_sweep():
    rows = [PLAIN, row("ngram-8", speedup=2.1), row("mtp-4", speedup=1.2)]
    rows += [row("ngram-8", speedup=9.0, stage="batch-4"), row("baseline", stage="batch-4")]
    found = judged(rows)["at least 2x", "json"]
    assert (found["name"], found["speedup"], found["is_met"], found["why"]) == (
        "ngram-8",
        2.1,
        True,
        "",
    )
    rows[1]["speedup"]["median"] = 1.9
    found = judged(rows)["at least 2x", "json"]
    assert not found["is_met"] and found["why"].startswith("acceptance")


def test_adaptive_modes_are_held_at_every_stage_and_others_nowhere():
    rows = [PLAIN, row("ngram-auto", speedup=0.98), row("mtp-4", speedup=0.5)]
    goal = ("adaptive never below 0.97x", "json")
    assert judged(rows)[goal]["is_met"]
    rows += [
        row("baseline", stage="batch-8", times=(0.0, 6.0, 1.0)),
        row("dspark-7-compact", speedup=0.9, tokens=1.2, times=(3.0, 6.5, 1.0), stage="batch-8"),
    ]
    found = judged(rows)[goal]
    assert not found["is_met"] and found["stage"] == "batch-8"
    assert found["why"].startswith("draft: 3.0 of 10.5 ms beyond a plain step's 7.0")


def test_drafters_are_held_against_the_best_lookup_of_the_kind():
    rows = [row("baseline", "chat"), row("ngram-4", "chat", 1.05), row("ngram-auto", "chat", 1.1)]
    rows += [row("eagle3-4", "chat", 1.08), row("eagle3-tree", "chat", 1.2)]
    rows[-1]["method"] = "eagle3-tree"
    found = judged(rows)
    assert found["eagle3 above ngram-auto", "chat"]["is_met"]
    assert not any(goal.startswith("dflash") for goal, _ in found)  # was not measured
    rows.pop()
    assert not judged(rows)["eagle3 above ngram-auto", "chat"]["is_met"]


# --- the design ------------------------------------------------------------------------------

BATCHES, ROWS = (1, 8), (1, 17)
FLAT = {"batches": BATCHES, "tokens": ROWS, "times_ms": [[20.0, 20.0], [20.0, 20.0]]}
STEEP = FLAT | {"times_ms": [[20.0 + (b - 1) * n for n in ROWS] for b in BATCHES]}
UNKNOWN = {"times_ms": None}


def swept(shallow, deep):
    rows = [PLAIN]
    for depth, (speedup, survival) in ((2, shallow), (7, deep)):
        rows.append(row(f"mtp-{depth}", speedup=speedup, times=(0.0, 20.0, 1.0)))
        rows[-1]["acceptance"] = {
            "survival": survival,
            "conditional": [],
            "proposed": [1.0] * depth,
        }
    return rows


def test_the_depth_is_chosen_for_the_batch():
    """Seven drafts yield more than two, and cost more where the rows of a batch cost something."""
    rows = swept((1.5, [0.8, 0.6]), (1.4, [0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1]))
    assert best_depth(rows, "mtp", 1, UNKNOWN) == 2  # as measured
    assert best_depth(rows, "mtp", 1, FLAT) == best_depth(rows, "mtp", 8, FLAT) == 7
    assert best_depth(rows, "mtp", 1, STEEP) == 7 and best_depth(rows, "mtp", 8, STEEP) == 2
    with pytest.raises(InputError, match="eagle3: no depth was swept"):
        best_depth(rows, "eagle3", 1, UNKNOWN)


def test_the_depth_is_chosen_by_what_drafting_takes_in_the_batch():
    """Dear drafts are not chosen, but where the requests of a batch share them."""
    rows = swept((1.5, [0.8, 0.6]), (1.4, [0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1]))
    for found, draft in zip(rows[1:], (4.0, 14.0), strict=True):
        found["phase_ms"] |= {"draft": draft}
    apart = FLAT | {"beside_ms": {"mtp-2": [4.0, 32.0], "mtp-7": [14.0, 112.0]}}
    together = FLAT | {"beside_ms": {"mtp-2": [4.0, 5.0], "mtp-7": [14.0, 15.0]}}
    assert best_depth(rows, "mtp", 8, apart) == best_depth(rows, "mtp", 8, FLAT) == 2
    assert best_depth(rows, "mtp", 8, together) == 7


def test_a_forecast_shares_the_forward_and_grows_what_is_beside_it():
    drafting, times = row("mtp-4", tokens=3.0, times=(10.0, 99.0, 1.0)), step_times(FLAT)
    both = (drafting, 1), (PLAIN, 1)
    assert forecast(*both, 1, times) == pytest.approx(3 * 21 / 31)
    shared = (drafting, 2), (PLAIN, 8)
    assert forecast(*shared, 8, times) == pytest.approx(3 * (20 + 8) / (20 + 2 * 11))
    assert forecast(*both, 1, None) is None


def test_every_stage_measures_every_method_and_adaptive_modes():
    from lessons.lib.bench.compare_plan import METHODS

    rows = [PLAIN]
    rows += [row(f"{m}-{d}", speedup=1.1) for m in METHODS for d in (4, 2)]
    for stage in STAGES:
        names = [spec.name for spec in stage_specs(stage, rows, FLAT)]
        assert names[0] == "baseline" and {name.split("-")[0] for name in names[1:]} == set(METHODS)
        assert {"ngram-auto", "eagle3-auto", "dspark-7-compact"} <= set(names)
        assert len(set(names)) == len(names)
        assert "dspark-7-compact" not in [s.name for s in stage_specs(stage, rows, UNKNOWN)]
    assert [stage.batch for stage in STAGES] == [1, 1, 4, 8] and STAGES[1].temperature == 0.8
    assert len(sweep_specs()) == 30


def test_adaptive_modes_stand_side_by_side():
    rows = [PLAIN, row("ngram-auto", speedup=1.1), row("mtp-4"), row("baseline", "chat")]
    rows += [row("dspark-7-compact", "chat", 0.98)]
    assert paced_table(rows).to_dict("records") == [
        {"stage": "depths", "kind": "json", "ngram-auto": "1.10", "dspark-7-compact": ""},
        {"stage": "depths", "kind": "chat", "ngram-auto": "", "dspark-7-compact": "0.98"},
    ]


def test_tables_show_paths_and_spread():
    rows = [PLAIN, row("mtp-4", speedup=1.2, times=(4.0, 20.0, 1.0)), row("ngram-auto")]
    (path,) = path_rows(rows)
    assert (path["method"], path["passes"], path["draft_ms"], path["plain_ms"]) == ("mtp", 4, 4, 21)
    assert path_table(rows)["of a plain step"].tolist() == ["0.19"]
    assert best_table(rows)["speedup"].tolist() == ["1.20 [1.10, 1.30]"]
    assert best_table(rows)["draft/verify/rest"].tolist() == ["16/80/4 %"]
