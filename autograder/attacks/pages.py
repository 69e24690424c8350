"""Parts of a page between a pair of marks, which a ledger fills: the prose around them stays."""

import re
from collections.abc import Mapping, Sequence

PART = "<!-- begin {0} -->\n\n{1}\n\n<!-- end {0} -->"


def filled(page: str, parts: Mapping[str, str]) -> str:
    """A page with the text of each part between its marks. Raises ValueError without them."""
    for name, text in parts.items():
        marks = re.compile(re.escape(PART.format(name, "@")).replace("@", ".*?"), re.DOTALL)
        start, *more = marks.split(page)
        if len(more) != 1:
            raise ValueError(f"the page needs one pair of marks for {name}")
        page = start + PART.format(name, text) + more[0]
    return page


def row_of(cells: Sequence[str]) -> str:
    """A line of a markdown table."""
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
