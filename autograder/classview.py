"""The class as a whole: how each check went, what failed most often, who waits for what."""

import io
import re
from collections import Counter, defaultdict

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from autograder.passrule import Outcome

# What can be said of one mark, from good to open, with colours that differ in lightness too.
BANDS = {"full": "#2a6f4e", "part": "#8fc49a", "none": "#c8553d", "open": "#d9d9d9"}
NUM_NAMES = 12  # of the students who wait for the same thing
LINE = re.compile(r" \(line \d+ of your cell\)")


def band(score: float | None, max_score: float, verdict: str) -> str:
    """Which of BANDS a mark is in; one worth no points goes by its verdict."""
    if score is None:
        return "open"
    if max_score == 0:
        return "full" if verdict == "pass" else "none"
    return "full" if score >= max_score else "part" if score > 0 else "none"


def distribution(lines: list[Outcome]) -> pd.DataFrame:
    """One row a check, one column a band: how many students. Only who was graded counts."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for mark in line.marks:
            counts[mark.id][band(mark.score, mark.max, mark.verdict)] += 1
    rows = {name: [found[key] for key in BANDS] for name, found in counts.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(BANDS))


def failures(lines: list[Outcome]) -> pd.DataFrame:
    """The reasons for lost points by how many students had them, the commonest first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        for mark in line.marks:
            if mark.verdict in ("fail", "invalid"):
                reasons = {LINE.sub("", reason) for reason in mark.reason.split("; ")}
                counts.update((mark.id, mark.verdict, reason) for reason in reasons)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [[number, *what] for what, number in ranked]
    return pd.DataFrame(rows, columns=["students", "check", "verdict", "reason"])


def by_hint(lines: list[Outcome]) -> pd.DataFrame:
    """Where in the lesson the class got stuck: students by hint, with the commonest reason."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    students: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        for mark in line.marks:
            if mark.verdict in ("fail", "invalid"):
                hint = mark.hint or mark.id
                students[hint].add(line.student)
                reasons[hint][LINE.sub("", mark.reason)] += 1
    ranked = sorted(students, key=lambda hint: (-len(students[hint]), hint))
    rows = [[len(students[h]), h, reasons[h].most_common(1)[0][0]] for h in ranked]
    return pd.DataFrame(rows, columns=["students", "hint", "commonest reason"])


def waiting(lines: list[Outcome]) -> pd.DataFrame:
    """What is awaited, by how many, and who they are; the most awaited first."""
    names: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        for state, marks in line.open.items():
            for what in [f"{mark} {state}" for mark in marks] or [state]:
                names[what].append(line.student)
    rows = [[len(who), what, listed(who)] for what, who in names.items()]
    frame = pd.DataFrame(rows, columns=["students", "awaits", "who"])
    return frame.sort_values("students", ascending=False, kind="stable")


def listed(names: list[str]) -> str:
    """The names, but for a long list its beginning and how many more."""
    more = len(names) - NUM_NAMES
    return ", ".join(names[:NUM_NAMES]) + (f" and {more} more" if more > 0 else "")


def plot(counts: pd.DataFrame, totals: list[float], max_total: float) -> str:
    """The distribution as an SVG: a bar a check, and the totals of those who wait for nothing."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        figure = Figure(figsize=(9.0, 0.8 + 0.36 * max(len(counts), 4)), layout="constrained")
        checks, sums = figure.subplots(1, 2, width_ratios=[3, 2])
        left = pd.Series(0, index=counts.index)
        for name, colour in BANDS.items():
            bars = checks.barh(counts.index, counts[name], left=left, color=colour, label=name)
            shade = "white" if name in ("full", "none") else "black"
            checks.bar_label(
                bars, [n or "" for n in counts[name]], label_type="center", color=shade
            )
            left = left + counts[name]
        checks.invert_yaxis()
        checks.set_xlabel("students")
        figure.legend(loc="outside upper left", ncols=len(BANDS), frameon=False)
        sums.hist(totals, bins=[n - 0.5 for n in range(int(max_total) + 2)], color="#4c78a8")
        sums.set_xlabel(f"points of {max_total:g} ({len(totals)} without open marks)")
        sums.yaxis.get_major_locator().set_params(integer=True)
        for axes in (checks, sums):
            axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
