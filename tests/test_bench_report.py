"""The report: its figures, its sentences, and a table for every picture."""

import copy
import json

import pytest
import serving_kit

from lessons.lib.bench import panels, report
from lessons.lib.cli import main


@pytest.fixture(scope="module")
def ledger():
    row = {"method": "ngram-4", "load": "concurrency 1", "measured": 1.5, "predicted": 1.6}
    return serving_kit.clean_ledger() | {"predictions": [row | {"error": 0.0667}]}


def panel(ledger, name):
    return next(panel for panel in panels.panels(ledger) if panel.name == name)


def slowed(ledger, load, factor):
    """The method's throughput at a load, made worse."""
    changed = copy.deepcopy(ledger)
    for point in changed["points"]:
        if point["method"] != "baseline" and point["arrivals"].get("concurrency") == load:
            point["figures"]["output_tokens_per_s"] /= factor
    return changed


def test_speedup_table_and_how_far_it_looked(ledger):
    found = panel(ledger, "speedup-concurrency")
    assert found.table["speedup"].tolist() == pytest.approx([1.5, 1.5])
    assert found.notes == ("ngram-4: no crossing of 1.0 was found up to 4",)


def test_crossing_lies_between_the_loads_that_surround_it(ledger):
    found = panel(slowed(ledger, 4, 3.0), "speedup-concurrency")
    assert found.table["speedup"].tolist() == pytest.approx([1.5, 0.5])
    assert "the speedup crosses 1.0 at 1.67" in found.notes[0]


def test_too_few_blocks_say_so(ledger):
    few = copy.deepcopy(ledger)
    few["points"] = [point for point in few["points"] if point["seed"] == 0]
    found = panel(few, "speedup-concurrency")
    assert found.table["speedup"].isna().all()
    assert "too few blocks at 1, 4" in found.notes[0]


def test_goodput_and_its_knee(ledger):
    found = panel(ledger, "goodput")
    assert set(found.table["method"]) == {"baseline", "ngram-4"}
    assert (found.table["goodput_rps"] <= found.table["rate"] * 1.3).all()
    assert found.notes[0] == "a good request keeps within ttft 500 ms, tpot 40 ms"
    wide = copy.deepcopy(ledger)
    for rate, good in ((10.0, 19), (20.0, 11)):
        for point in copy.deepcopy(ledger["points"]):
            if point["arrivals"]["loop"] == "open":
                point["arrivals"]["rate"] = rate
                point["figures"]["num_good"] = good
                wide["points"].append(point)
    for point in wide["points"]:
        if point["arrivals"].get("rate") == 5.0:
            point["figures"]["num_good"] = 20
    assert "the knee is at rate 10" in panel(wide, "goodput").notes[1]


def test_tails_pool_the_requests_of_all_blocks(ledger):
    found = panel(ledger, "tpot").table
    assert found["requests"].tolist() == [120] * 6
    tpot = [
        request["tpot_ms"]
        for point in ledger["points"]
        if point["method"] == "baseline" and point["arrivals"].get("concurrency") == 4
        for request in point["requests"].values()
    ]
    row = found[(found["method"] == "baseline") & (found["load"] == "concurrency 4")].iloc[0]
    assert row["p99"] == pytest.approx(sorted(tpot)[-2], rel=0.2)
    assert not found["p99"].isna().any()


def test_composition_sums_to_one(ledger):
    table = panel(ledger, "composition").table
    assert table[["draft", "verify", "rest"]].sum(axis=1).tolist() == pytest.approx([1.0] * 6)


def test_lengths_stand_beside_target_onlys(ledger):
    even = panel(ledger, "length-parity")
    assert (
        even.table["ratio"].tolist() == [1.0] * 3 and even.table["requests"].tolist() == [120] * 3
    )
    assert "differ by 0.0% at most" in even.notes[0]
    longer = copy.deepcopy(ledger)
    for point in longer["points"]:
        if point["method"] != "baseline" and point["arrivals"].get("concurrency") == 4:
            for request in point["requests"].values():
                request["output_tokens"] *= 2
    found = panel(longer, "length-parity")
    assert found.table["ratio"].tolist() == [1.0, 2.0, 1.0]
    assert "differ by 100.0% at most" in found.notes[0]


def test_residuals_name_the_largest_miss(ledger):
    rows = [dict(ledger["predictions"][0], error=error) for error in (0.05, -0.3, 0.1)]
    found = panel(ledger | {"predictions": rows}, "residuals")
    assert found.table["error"].tolist() == [0.05, -0.3, 0.1]
    assert found.notes == ("the largest miss is 30%",)
    assert panel(ledger | {"predictions": []}, "residuals").text().endswith("not measured")


def test_other_software_is_named_as_such_and_has_no_crossing(ledger):
    mixed = copy.deepcopy(ledger) | {"not_measured": {"transformers-assisted": "no assistant"}}
    for point in copy.deepcopy(ledger["points"]):
        if point["method"] != "baseline":
            point["method"], point["setup"] = "transformers", {"is_peer": True}
            mixed["points"].append(point)
    text = report.report(mixed)
    assert "transformers-assisted was not measured: no assistant" in text
    assert "transformers: other software" in text
    notes = panel(mixed, "speedup-concurrency").notes
    assert [note.split(":")[0] for note in notes] == ["ngram-4"]
    assert "transformers" in set(panel(mixed, "speedup-concurrency").table["method"])


def test_points_that_are_not_valid_are_left_out_and_counted(ledger):
    broken = copy.deepcopy(ledger)
    broken["points"][0]["validity"]["problems"] = ["driver late"]
    assert "35 valid points; 1 left out" in report.report(broken)
    assert panel(broken, "tpot").table["requests"].tolist()[0] == 100


def test_every_picture_has_its_table_in_the_text(ledger, tmp_path, capsys):
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(ledger))
    assert main(["bench-report", str(path), "--plots", str(tmp_path / "plots")]) == 0
    text = capsys.readouterr().out
    written = {file.name for file in (tmp_path / "plots").iterdir()}
    assert written == {f"{item.name}.png" for item in panels.panels(ledger)} | {"points.csv"}
    for item in panels.panels(ledger):
        assert item.text() in text and len(item.text().splitlines()) > len(item.table)
    csv = (tmp_path / "plots" / "points.csv").read_text().splitlines()
    assert len(csv) == 1 + len(ledger["points"])


def test_a_picture_of_many_methods_can_be_read(ledger):
    """As many as `make bench` has: none looks like another, none is drawn over another's name."""
    wide = copy.deepcopy(ledger)
    for point in ledger["points"]:
        copies = 12 if point["method"] != "baseline" else 0
        wide["points"] += [dict(point, method=f"method {n}") for n in range(copies)]
    picture = panel(wide, "speedup-concurrency").figure()
    lines = [line for line in picture.axes[0].lines if line.get_label()[0] != "_"]
    assert len(lines) == 13 and len({line.get_color() for line in lines}) == 13
    bars = panel(wide, "composition").figure()
    names = bars.axes[0].get_yticklabels()
    assert len(names) == 14 * 3 and bars.get_size_inches()[1] >= 0.2 * len(names)


def test_what_was_not_measured_is_said(ledger):
    closed = copy.deepcopy(ledger)
    closed["points"] = [p for p in closed["points"] if p["arrivals"]["loop"] == "closed"]
    text = report.report(closed)
    assert "SLO goodput against rate\n  not measured" in text
    empty = report.report(closed | {"points": [], "predictions": []})
    assert empty.count("not measured") == len(panels.panels(closed))


def test_a_missing_ledger_is_one_line(tmp_path, capsys):
    assert main(["bench-report", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.startswith("error: cannot read")
