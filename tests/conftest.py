"""What a missing program means: a skip with the command that installs it, and a failure in CI."""

import os
import shutil
import subprocess

import pytest

import kernels  # noqa: F401  (decides how OpenMP waits, before a test imports torch)

PROGRAMS = {
    "browser": ("chromium", "needs Chromium: apt-get install chromium"),
    "sandbox": ("bwrap", "needs bubblewrap: apt-get install bubblewrap"),
}


def _usable(program: str) -> bool:
    path = shutil.which(program)
    if path is None:
        return False
    if program != "bwrap":
        return True
    # Installed is not enough: some hosts forbid user namespaces.
    command = [path, "--ro-bind", "/", "/", "--unshare-all", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


def pytest_collection_modifyitems(items):
    missing = {mark: why for mark, (program, why) in PROGRAMS.items() if not _usable(program)}
    for item in items:
        for mark, why in missing.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=why))
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    needs_program = any(item.get_closest_marker(mark) for mark in PROGRAMS)
    if os.environ.get("CI") == "true" and needs_program and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _figures_of_tests_stay_apart(tmp_path_factory):
    """Made-up figures must never be kept where a grader would find them and judge by them."""
    from autograder.checks import figures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "CACHE", tmp_path_factory.mktemp("figures") / "live_figures.json")
        yield
