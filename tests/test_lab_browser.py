"""A student in JupyterLab: open the release, fill the blanks, run all, Validate says it passes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from classroom_kit import UNIT, WRITTEN, code_answers
from lab_kit import student_environment

from autograder.assignment import ROOT

pytestmark = pytest.mark.browser
pytest.importorskip("playwright.sync_api")

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE_MS = 240_000  # a busy machine is slow
# The notebook that is open, as JupyterLab's own scripts see it.
CELLS = "[...(window.jupyterapp?.shell.currentWidget?.content?.model?.cells ?? [])]"
SELECT = """index => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    notebook.mode = 'edit';
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab started by the verb `lab`."""
    folder = tmp_path_factory.mktemp("student")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", "--expose-app-in-browser"]
    root = ["--allow-root"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "autograder", "lab", UNIT, f"--folder={folder}", *options]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(
            [*command, "--IdentityProvider.token=", *root],
            cwd=ROOT,
            env=student_environment(folder),
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(f"{address}/api/status", server, folder / "log.txt")
            yield address
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)


def wait_for(url, server, log):
    for _ in range(240):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.5)
    raise AssertionError(f"JupyterLab does not answer: {log.read_text()}")


@pytest.fixture(scope="module")
def page(lab):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.goto(f"{lab}/lab/tree/{UNIT}.ipynb")
        opened.wait_for_function(f"() => {CELLS}.length > 10")
        yield opened
        browser.close()


def type_into(page, name, text):
    """Replace a cell's text by keyboard, as a student does."""
    index = page.evaluate(f"() => {CELLS}.findIndex(cell => cell.id === '{name}')")
    page.evaluate(SELECT, index)
    page.locator(".jp-Notebook .jp-mod-active .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
    typed = page.evaluate(f"index => {CELLS}[index].sharedModel.getSource()", index)
    assert typed == text


def test_fill_run_all_and_validate(page):
    for name, text in code_answers().items():
        type_into(page, name, text)
    for name in ("q1", "q2", "q3"):
        type_into(page, name, WRITTEN)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        f"() => {CELLS}.filter(c => c.type === 'code').every(c => c.executionCount)"
    )
    errors = page.evaluate(
        f"() => {CELLS}.filter(c => c.type === 'code').flatMap(c => c.sharedModel.getOutputs())"
        ".filter(output => output.output_type === 'error').map(output => output.evalue)"
    )
    assert errors == []
    page.get_by_role("button", name="Validate").first.click()
    dialog = page.locator(".jp-Dialog")
    dialog.wait_for()
    assert "Success! Your notebook passes all the tests." in dialog.inner_text()
