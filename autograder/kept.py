"""Results that outlive a run that was stopped: the same command goes on from there."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Kept:
    """A file beside the one that a run will write, with a line for each part that is done."""

    def __init__(self, out: Path) -> None:
        self.file = out.with_name(f"{out.name}.part")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.found: dict[str, Any] = dict(map(json.loads, filter(is_whole, lines)))
        self.lock = threading.Lock()

    def or_now(self, key: str, make: Callable[[], Any]) -> Any:
        """The plain data that is kept under a key, else what `make` gives, which is kept."""
        key = hashlib.sha256(key.encode()).hexdigest()
        if key not in self.found:
            self.found[key] = make()
            with self.lock, self.file.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([key, self.found[key]])}\n")
        return self.found[key]

    def done(self) -> None:
        """The run has come to its end."""
        self.file.unlink(missing_ok=True)


def is_whole(line: str) -> bool:
    """Whether a line was written to its end."""
    try:
        return len(json.loads(line)) == 2
    except (ValueError, TypeError):
        return False
