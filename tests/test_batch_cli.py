"""`verify-tree` against transformers, which runs every path alone, and the `soak` command."""

import io
import json

import pytest
import torch

from lessons.lib.cli import main
from tests.engine_models import reference_model, write_folder

REQUEST = {"prompt": [5, 6, 7], "tokens": [8, 9, 10, 11, 12], "parent_ids": [-1, -1, 0, 0, 3]}


@pytest.fixture(scope="module")
def reference():
    return reference_model("llama")


@pytest.fixture(scope="module")
def folder(reference, tmp_path_factory):
    return str(write_folder(reference, tmp_path_factory.mktemp("model")))


def verify_tree(monkeypatch, folder, request):
    text = request if isinstance(request, str) else json.dumps(request)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["verify-tree", "--json", "--model", folder, "--dtype", "float32"])


def test_nodes_equal_transformers_on_every_path(monkeypatch, capsys, folder, reference):
    assert verify_tree(monkeypatch, folder, REQUEST) == 0
    report = json.loads(capsys.readouterr().out)
    nodes = report["nodes"]
    assert [node["token_id"] for node in nodes] == [7, *REQUEST["tokens"]]
    for index, node in enumerate(nodes):
        path, at = [], index
        while at > 0:
            path.insert(0, nodes[at]["token_id"])
            at = nodes[at]["parent_id"]
        with torch.inference_mode():
            log_probs = reference(torch.tensor([[5, 6, 7, *path]])).logits[0].log_softmax(-1)
        assert node["argmax"] == int(log_probs[-1].argmax()) == node["top_token_ids"][0]
        expected = log_probs[-1, node["top_token_ids"]].tolist()
        assert node["top_log_probs"] == pytest.approx(expected, abs=1e-3)
        if index:
            expected = float(log_probs[-2, node["token_id"]])
            assert node["log_prob"] == pytest.approx(expected, abs=1e-3)


def test_the_accepted_path_is_the_greedy_one(monkeypatch, capsys, folder, reference):
    with torch.inference_mode():
        first = int(reference(torch.tensor([[5, 6, 7]])).logits[0, -1].argmax())
        second = int(reference(torch.tensor([[5, 6, 7, first]])).logits[0, -1].argmax())
    wrong = [token for token in range(20, 30) if token not in (first, second)]
    tokens, parents = [wrong[0], first, wrong[1], second, wrong[2]], [-1, -1, 1, 1, 3]
    assert (
        verify_tree(monkeypatch, folder, dict(prompt=[5, 6, 7], tokens=tokens, parent_ids=parents))
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["accepted_path"] == [0, 2, 4]
    assert report["token_ids"][:2] == [first, second] and len(report["token_ids"]) == 3


@pytest.mark.parametrize(
    "request_, message",
    [
        ("{", "stdin: not valid JSON"),
        ({"prompt": [5], "tokens": [1]}, "stdin: key 'parent_ids' is missing"),
        (REQUEST | {"prompt": []}, "stdin: the prompt holds no tokens"),
        (REQUEST | {"prompt": [200]}, "token id 200: the model has 97 tokens"),
        (REQUEST | {"tokens": [8.5]}, "stdin: tokens must be a list of whole numbers"),
        (REQUEST | {"tokens": [8]}, "stdin: 1 tokens but 5 parent_ids"),
        (REQUEST | {"parent_ids": [-1, -1, 0, 0, 4]}, "stdin: tree: node 5 has parent 5"),
    ],
)
def test_bad_input_is_one_line(monkeypatch, capsys, folder, request_, message):
    assert verify_tree(monkeypatch, folder, request_) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error


def test_soak(capsys):
    assert main(["soak", "--rounds", "240", "--seed", "1", "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert len(reports) == 12 and {report["rounds"] for report in reports} == {20}
    assert main(["soak", "--rounds", "0"]) == 2
