"""The pins agree, the imports run one way, and the verbs of the README exist."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
VERBS = ["course", "test", "lab", "release", "autograde", "feedback", "report", "formgrader"]
VERBS += ["render", "check-sources", "lint", "bench", "doctor", "clean"]
LAYERS = ["kernels", "lessons.lib", "course.render", "autograder"]


def read_lock() -> dict[str, Requirement]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in found}


def test_lock_is_exact_and_names_no_local_build():
    for requirement in read_lock().values():
        pins = list(requirement.specifier)
        assert [pin.operator for pin in pins] == ["=="], f"not exact: {requirement}"
        assert "+" not in pins[0].version, f"a local build cannot be installed: {requirement}"


def test_lock_holds_torch_and_its_triton():
    lock = read_lock()
    assert str(lock["torch"].specifier) == "==2.13.0"
    assert str(lock["triton"].specifier) == "==3.7.1"
    assert lock["triton"].marker and "Linux" in str(lock["triton"].marker)


def test_lock_satisfies_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["instructor"] + extras["cluster"]
    lock = read_lock()
    for requirement in map(Requirement, wanted):
        name = requirement.name.lower().replace("_", "-")
        assert name in lock, f"{name} is in pyproject.toml and not in requirements.lock"
        version = next(iter(lock[name].specifier)).version
        assert requirement.specifier.contains(version), f"{requirement} against {version}"


def test_environment_yml_pins_agree_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert "quarto" in conda
    assert re.fullmatch(r"python=3\.1[1-3]", conda[0])
    assert "-r requirements.lock" in pip and "-e ." in pip
    pins = [Requirement(line) for line in pip if not line.startswith("-")]
    named = {"torch", "triton", "jupyterlab", "nbgrader", "matplotlib", "pandas", "pytest"}
    assert named | {"starlette", "uvicorn"} == {pin.name for pin in pins}
    lock = read_lock()
    for pin in pins:
        assert pin.specifier == lock[pin.name].specifier, pin


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported_modules(path: Path) -> set[str]:
    found = set()
    package = module_of(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = [*base, *(node.module.split(".") if node.module else [])]
            found.add(".".join(parts))
            found.update(".".join([*parts, alias.name]) for alias in node.names)
    return found


def layer_of(module: str) -> int | None:
    for index, layer in enumerate(LAYERS):
        if module == layer or module.startswith(layer + "."):
            return index
    return None


def wrong_edges(paths: list[Path]) -> list[str]:
    edges = []
    for path in paths:
        here = layer_of(module_of(path))
        for target in imported_modules(path):
            there = layer_of(target)
            if target.split(".")[0] == "solutions":
                edges.append(f"{path.relative_to(ROOT)} imports {target}: solutions are data")
            elif here is not None and there is not None and there > here:
                edges.append(f"{path.relative_to(ROOT)} imports {target}")
    return edges


def test_imports_run_one_way():
    paths = [
        path
        for top in ("kernels", "lessons", "course", "autograder")
        for path in (ROOT / top).rglob("*.py")
    ]
    assert len(paths) > 10
    assert wrong_edges(paths) == []


def test_import_test_sees_a_wrong_edge(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    bad = tmp_path / "kernels" / "bad.py"
    bad.parent.mkdir()
    bad.write_text("from autograder import judge\n")
    assert (
        wrong_edges([bad])
        == [
            "kernels/bad.py imports autograder",
            "kernels/bad.py imports autograder.judge",
        ]
        or len(wrong_edges([bad])) == 2
    )


def test_kernels_import_only_torch_and_triton():
    allowed = {"torch", "triton", "kernels"} | set(sys.stdlib_module_names)
    for path in (ROOT / "kernels").rglob("*.py"):
        foreign = {name.split(".")[0] for name in imported_modules(path)} - allowed
        assert not foreign, f"{path.relative_to(ROOT)} imports {foreign}"


def test_make_help_lists_every_verb():
    output = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for verb in VERBS:
        assert re.search(rf"make {verb}\s+\S", output), verb


def test_ci_calls_the_test_command_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text()
    for command in ("make course", "make test"):
        assert command in readme and re.search(rf"^{command}$", ci, re.M), command


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "environment.yml", ".ci/run"])
def test_top_level_file_is_there(name):
    assert (ROOT / name).stat().st_size > 0


def clean(folder, classroom):
    """Run the recipe of `make clean` in another folder."""
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text())
    command = ["make", "clean", f"CLASSROOM={classroom}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_clean_keeps_a_students_copy_and_the_classroom(tmp_path):
    for name in ("build/student/a.ipynb", "build/site/index.html", "classroom/gradebook.db"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert clean(tmp_path, "classroom").returncode == 0
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert left == ["build/student/a.ipynb", "classroom/gradebook.db"]


def test_clean_refuses_when_it_would_delete_a_classroom(tmp_path):
    (tmp_path / "build" / "class").mkdir(parents=True)
    refused = clean(tmp_path, "build/class")
    assert refused.returncode != 0 and "move it first" in refused.stdout
    assert (tmp_path / "build" / "class").is_dir()
