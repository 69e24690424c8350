"""`--draft PATH` takes published folders, and one of another method is named as that."""

import json

import pytest

from lessons.lib.bench.ledger import read_ledger
from lessons.lib.bench.workload import KINDS
from lessons.lib.cli import main
from lessons.lib.train.cli import main as train
from lessons.lib.train.data import Sample, write_samples
from tests.batch_kit import random_ids
from tests.checkpoint_kit import deep_reference
from tests.engine_models import write_folder
from tests.test_checkpoints_block import deepspec, zlab
from tests.test_checkpoints_block import written as write_block
from tests.test_checkpoints_eagle3 import authors
from tests.test_checkpoints_eagle3 import written as write_eagle3
from tests.test_checkpoints_mtp import tensors_of
from tests.test_checkpoints_mtp import written as write_mtp


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("published")
    return {
        "target": write_folder(deep_reference(), root / "target"),
        "eagle3": write_eagle3(root / "eagle3", authors()),
        "dflash": write_block(root / "dflash", zlab()),
        "dspark": write_block(root / "dspark", deepspec()),
        "mtp": write_mtp(root / "mtp", "qwen", tensors_of("qwen")),
    }


def generate(capsys, folders, *more):
    arguments = ["generate", "--prompt", "<5> <6> <7>", "--model", str(folders["target"]), "--json"]
    arguments += ["--dtype", "float32", "--device", "cpu", "--max-new-tokens", "10", *more]
    assert main(arguments) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("method", ["eagle3", "dflash", "dspark", "mtp"])
def test_generate_drafts_with_a_published_folder(capsys, folders, method):
    plain = generate(capsys, folders)
    drafted = generate(capsys, folders, "--method", method, "--draft", str(folders[method]))
    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["acceptance"]["proposed"]


def test_compare_takes_one_folder_a_method(folders, tmp_path):
    out = tmp_path / "ledger.json"
    arguments = ["compare", "--methods", "dflash", "--draft", f"dflash={folders['dflash']}"]
    arguments += ["--categories", "copy", "--limit", "1", "--depths", "3", "--max-new-tokens", "6"]
    arguments += ["--model", str(folders["target"]), "--dtype", "float32", "--json", str(out)]
    assert main(arguments) == 0
    assert "dflash-3" in {row["name"] for row in read_ledger(out)["results"]}


@pytest.mark.parametrize("method", ["eagle3", "dspark"])
def test_train_eval_measures_a_published_folder(capsys, folders, tmp_path, method):
    write_samples(
        [Sample(random_ids(12, seed), 4, "tiny") for seed in range(20)], tmp_path / "t.npz"
    )
    arguments = ["eval", method, "--weights", str(folders[method]), "--limit", "1", "--depth", "3"]
    arguments += ["--model", str(folders["target"]), "--dtype", "float32", "--device", "cpu"]
    arguments += ["--data", str(tmp_path / "t.npz"), "--max-new-tokens", "6", "--threads", "1"]
    assert train(arguments) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if " rounds " in line]
    assert {row[0] for row in rows} == {"bigram", method}
    assert {row[1] for row in rows if row[0] == method} == {"all", *KINDS}


def test_a_folder_of_another_method_names_the_one_that_fits(capsys, folders):
    arguments = ["generate", "--prompt", "<5>", "--model", str(folders["target"])]
    assert main([*arguments, "--method", "eagle3", "--draft", str(folders["dspark"])]) == 2
    assert "for the method dspark, not eagle3" in capsys.readouterr().err
