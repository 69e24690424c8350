import json
import subprocess
import sys

import pytest

from lessons.lib.bench import pace
from lessons.lib.bench.ledger import read_ledger
from lessons.lib.cli import main
from lessons.lib.pacing import Pacing
from tests.engine_models import reference_model, write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return str(write_folder(reference_model("llama"), folder))


def generate(capsys, model, *more):
    arguments = ["generate", "--prompt", "<5> <6> <7> <5> <6>", "--model", model, "--json"]
    assert main([*arguments, "--dtype", "float32", "--device", "cpu", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_generate_prints_tokens_and_metrics(capsys, model):
    found = generate(capsys, model, "--max-new-tokens", "25", "--method", "ngram", "--depth", "3")
    assert {
        "token_ids",
        "text",
        "num_rounds",
        "acceptance",
        "acceptance_length",
        "phase_ms",
        "tokens_per_s",
    } <= set(found)
    assert set(found["acceptance"]) >= {"survival", "conditional"}
    assert 1 <= len(found["token_ids"]) <= 25
    if found["num_rounds"]:
        tokens = 1 + sum(found["acceptance"]["survival"])
        assert found["acceptance_length"] == pytest.approx(tokens)
        assert found["num_rounds"] * tokens == pytest.approx(len(found["token_ids"]) - 1)


def test_ngram_gives_the_ids_of_none_and_seeds_repeat(capsys, model):
    for more in ([], ["--temperature", "0.9", "--top-k", "5", "--top-p", "0.95", "--seed", "3"]):
        plain = generate(capsys, model, *more)
        drafted = generate(capsys, model, "--method", "ngram", *more)
        assert drafted["token_ids"] == plain["token_ids"]
        assert generate(capsys, model, *more)["token_ids"] == plain["token_ids"]
    other = generate(capsys, model, "--temperature", "0.9", "--seed", "4")
    assert other["token_ids"] != plain["token_ids"]


def test_an_adaptive_depth_leaves_the_text_alone(capsys, model):
    plain = generate(capsys, model, "--max-new-tokens", "25")
    paced = generate(
        capsys, model, "--max-new-tokens", "25", "--method", "ngram", "--depth", "auto"
    )
    assert paced["token_ids"] == plain["token_ids"]
    assert 0 < len(paced["acceptance"]["proposed"]) <= 7  # the most that the controller may ask


def test_pacing_is_planned_for_the_method_and_its_weights(capsys, model, monkeypatch):
    asked = []

    def planned(engine, make, depth, mode):
        asked.append((type(make()).__name__, depth, mode))
        return Pacing()

    monkeypatch.setattr(pace, "planned_verification", planned)
    generate(capsys, model, "--method", "ngram", "--depth", "3", "--pacing", "compact")
    assert asked == [("NgramProposer", 3, "compact")]


def test_text_without_json_and_raw_prompts(capsys, model):
    arguments = ["generate", "--prompt", "<5> <6>", "--model", model, "--max-new-tokens", "3"]
    assert main(arguments) == 0
    chat = capsys.readouterr().out
    assert main([*arguments, "--raw"]) == 0
    assert chat.startswith("<") and capsys.readouterr().out != chat


def test_compare_writes_a_ledger(capsys, model, tmp_path):
    out = tmp_path / "ledger.json"
    arguments = ["compare", "--methods", "none,ngram", "--categories", "copy,chat", "--limit", "1"]
    arguments += ["--depths", "2,3", "--repeats", "2", "--max-new-tokens", "8", "--seed", "5"]
    assert main([*arguments, "--model", model, "--dtype", "float32", "--json", str(out)]) == 0
    ledger = read_ledger(out)
    names = ["baseline", "ngram-2", "ngram-3"]
    assert [(r["category"], r["name"]) for r in ledger["results"]] == [
        (category, name) for category in ("copy", "chat", "all") for name in names
    ]
    assert all(row["num_runs"] == 2 for row in ledger["results"][:6])
    assert ledger["settings"]["seed"] == 5
    assert ledger["command"].startswith("python -m lessons.lib compare --methods none,ngram")
    assert "ngram-3" in capsys.readouterr().out


def test_compare_measures_an_adaptive_depth_beside_fixed_ones(capsys, model, tmp_path):
    out = tmp_path / "ledger.json"
    arguments = ["compare", "--methods", "ngram", "--depths", "2,auto", "--categories", "copy"]
    arguments += ["--limit", "1", "--max-new-tokens", "12", "--json", str(out), "--model", model]
    assert main([*arguments, "--dtype", "float32", "--device", "cpu"]) == 0
    rows = {row["name"]: row for row in read_ledger(out)["results"]}
    assert list(rows) == ["baseline", "ngram-2", "ngram-auto"]
    assert len(rows["ngram-2"]["acceptance"]["proposed"]) <= 2 < rows["ngram-auto"]["depth"]
    assert len({row["num_tokens"] for row in rows.values()}) == 1


GENERATE = ["generate", "--prompt", "<5>", "--model", "MODEL"]
REPEATS = [*GENERATE, "--prompt", "<5> <6> <7> <5> <6>", "--raw"]  # n-gram finds drafts at once
COMPARE = ["compare", "--json", "out.json", "--model", "MODEL"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([*GENERATE, "--seed", "abc"], "--seed: invalid int value: 'abc'"),
        ([*GENERATE, "--seed", "-4"], "seed must be between 0"),
        ([*GENERATE, "--temperature", "-1"], "temperature must be 0 or more"),
        ([*GENERATE, "--temperature", "warm"], "--temperature: invalid float value"),
        ([*GENERATE, "--top-p", "0"], "top_p must be above 0"),
        ([*GENERATE, "--method", "medusa"], "unknown method 'medusa'; choose one of none, ngram"),
        ([*GENERATE, "--depth", "-1"], "depth must be 0 or more, got -1"),
        ([*GENERATE, "--depth", "deep"], "not a whole number, nor auto: 'deep'"),
        ([*GENERATE, "--depth", "auto", "--pacing", "compact"], "give --depth a number"),
        ([*GENERATE, "--pacing", "compact"], "target-only has none: give --method"),
        ([*GENERATE, "--method", "ngram", "--pacing", "fast"], "unknown pacing 'fast'"),
        ([*REPEATS, "--method", "ngram", "--pacing", "compact"], "needs confidences"),
        ([*GENERATE, "--dtype", "int4"], "unknown dtype 'int4'"),
        ([*GENERATE, "--device", "tpu"], "unknown device 'tpu'"),
        ([*GENERATE, "--max-new-tokens", "0"], "max_new_tokens must be 1 or more"),
        ([*GENERATE[:3], "--model", "no/such.gguf"], "no/such.gguf not found; run `make course`"),
        (["generate"], "arguments are required: --prompt"),
        ([], "arguments are required: COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        ([*COMPARE, "--categories", "poetry"], "unknown category 'poetry'"),
        ([*COMPARE, "--methods", "none,medusa"], "unknown method 'medusa'"),
        ([*COMPARE, "--depths", "2,x"], "--depths: not whole numbers: '2,x'"),
        ([*COMPARE, "--depths", "0"], "depths must be 1 or more"),
        ([*COMPARE, "--split", "test"], "unknown split 'test'"),
        ([*COMPARE, "--repeats", "0"], "at least one prompt and one repeat"),
    ],
)
def test_bad_arguments_give_one_line_and_exit_two(capsys, model, arguments, message):
    code = main([model if argument == "MODEL" else argument for argument in arguments])
    output = capsys.readouterr()
    assert code == 2 and output.out == ""
    assert output.err.startswith("error: ") and output.err.count("\n") == 1
    assert message in output.err


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "lessons.lib", "generate", "--prompt", "x", "--model", "nope"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: model nope not found") and "Traceback" not in done.stderr
