"""The instructor's page says what the programs do: verbs, options, vetoes, the pattern of names."""

import re

import pytest
from classroom_kit import UNIT
from nbgrader.plugins import FileNameCollectorPlugin
from traitlets.config import Config

from autograder import rubric
from autograder.assignment import ROOT
from autograder.nbgrader_config import configure

PAGES = {"en": "index.qmd", "zh": "index.zh.qmd"}
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page(lang):
    return (ROOT / "course/instructor" / PAGES[lang]).read_text(encoding="utf-8")


def commands(lang):
    """The lines of all shell blocks without their comments."""
    lines = "".join(FENCE.findall(page(lang))).splitlines()
    return [re.sub(r"\s+#.*", "", line) for line in lines]


@pytest.mark.parametrize("lang", PAGES)
def test_every_veto_of_the_rubric_is_listed_with_its_meaning(lang):
    listed = dict(re.findall(r"^\| `VETO (\w+)` \| (.*) \|$", page(lang), re.MULTILINE))
    assert listed == {veto["id"]: veto[lang] for veto in rubric.read_rubric(UNIT)["vetoes"]}


def test_every_verb_is_one_of_the_makefiles():
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", page("en") + page("zh")))
    assert {"release", "autograde", "export"} <= named <= verbs


def test_both_languages_give_the_same_commands():
    plain = [line.removeprefix("COURSE_LANG=zh ") for line in commands("zh")]
    assert plain == commands("en") and len(plain) > 15


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("amy_lesson08.ipynb", "amy"),
        ("zhouamy_LATE_12_345_lesson08-1.ipynb", "zhouamy"),
        ("cho_77_88_my lesson08 (2).ipynb", "cho"),
        ("lesson08.ipynb", None),
        ("amy_homework.ipynb", None),
    ],
)
def test_the_pattern_finds_student_and_unit(tmp_path, name, student):
    plugin = FileNameCollectorPlugin(config=configure(Config(), tmp_path))
    found = plugin.collect(str(tmp_path / "a_b/lesson07_x" / name))
    assert (found and (found["student_id"], found["file_id"])) == (student and (student, UNIT))


def test_the_other_pattern_of_the_page_works_too(tmp_path):
    (pattern,) = set(re.findall(r"named_regexp='(.*)'", page("en") + page("zh")))
    config = Config({"FileNameCollectorPlugin": {"named_regexp": pattern}})
    found = FileNameCollectorPlugin(config=config).collect("/x/lesson08-amy_b.ipynb")
    assert found["student_id"] == "amy_b" and found["file_id"] == UNIT
