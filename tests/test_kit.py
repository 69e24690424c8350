"""What a student receives: everything needed, and nothing that answers or judges."""

import io
import json
import re
import subprocess
import sys
import venv
import zipfile

import pytest
from unit_kit import UNITS, cells, solution

from autograder import kit
from autograder.fill_ins import fill_ins
from lessons.lib.start_page import PAGE, units_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = kit.build_kit("en", tmp_path_factory.mktemp("kit"))
    with zipfile.ZipFile(path) as archive:
        archive.extractall(path.parent)
    return path.parent / kit.NAME


def texts(folder):
    """Everything that can be read in the kit, the wheel's files included, by name."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if path.suffix == ".whl":
            archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
            for name in archive.namelist():
                found[name] = archive.read(name).decode("utf-8", "ignore")
        else:
            found[path.relative_to(folder).as_posix()] = path.read_text("utf-8", "ignore")
    return found


def test_every_unit_is_there_with_the_page_and_the_engine(packed):
    assert [path.stem for path in units_in(packed)] == UNITS
    names = {path.name for path in packed.iterdir()}
    assert {PAGE, "README.md", "environment.yml", "wheels"} <= names
    wheel = texts(packed)
    assert "lessons/lib/engine.py" in wheel and "lessons/lib/checks/lesson07.py" in wheel


def test_no_answer_reaches_a_student(packed):
    """No filled line of any exercise and no reference answer, in notebooks or elsewhere."""
    everything = {
        name: text
        for name, text in texts(packed).items()
        if name.endswith((".ipynb", ".md", ".yml"))
    }
    for unit in UNITS:
        blanks = "\n".join(cell.source for cell in cells(unit, "exercise"))
        for cell in solution(unit).cells:
            new = [line.strip() for line in cell.source.splitlines() if line not in blanks]
            telling = [line for line in new if len(line) > 30 and not line.startswith("#")]
            for line in telling:
                quoted = json.dumps(line, ensure_ascii=False)[1:-1]
                assert not [name for name, text in everything.items() if quoted in text], line
        for answer in solution(unit).answers:
            sentence = answer.body.strip().splitlines()[0][:80]
            quoted = json.dumps(sentence, ensure_ascii=False)[1:-1]
            assert not [name for name, text in everything.items() if quoted in text]


def test_no_mutant_no_grader_and_no_seed(packed):
    found = texts(packed)
    assert not [name for name in found if re.search(r"autograder|solutions|mutants|rubric", name)]
    assert not [name for name in found if "seed" in name]
    for unit in UNITS:
        for item in fill_ins(unit):
            assert not [name for name, text in found.items() if item.text in text]


def test_it_is_built_equal_twice(packed, tmp_path):
    again = kit.build_kit("en", tmp_path)
    with zipfile.ZipFile(again) as archive:
        assert archive.read(f"{kit.NAME}/lesson08/lesson08.ipynb")
        assert all(entry.date_time == kit.STAMP for entry in archive.infolist())


@pytest.mark.timeout(1500)
def test_it_installs_in_a_fresh_environment_and_runs_lesson_8(packed, tmp_path):
    """The wheel in an environment of its own; third-party packages are those of this one."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin/python"
    (wheel,) = (packed / "wheels").glob("*.whl")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = (home / "lib").glob("python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (site / "third_party.pth").write_text("\n".join(here))
    code = "import lessons.lib, kernels; print(lessons.lib.__file__)"
    said = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert str(site) in said.stdout, said.stderr
    run = [python, "-I", "-m", "lessons.lib.progress", packed / "lesson08/lesson08.ipynb"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "num_right": 0,
        "num_checks": 3,
        "note": "",
    }, done.stderr
