"""Results that outlive a run that was stopped."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.attacks.corpus import Attack


class Kept:
    """What stock nbgrader has done already in a run that was stopped: a line an attack."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.found: dict[str, Any] = dict(map(json.loads, lines))
        self.lock = threading.Lock()

    def or_now(self, attack: Attack, try_it: Callable[[Attack], Any]) -> Any:
        """The result that is kept for this very text, else a new one, which is kept."""
        key = hashlib.sha256(f"{attack.id}\n{attack.text}".encode()).hexdigest()
        if key not in self.found:
            result = try_it(attack)
            with self.lock, self.file.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([key, result])}\n")
            self.found[key] = result
        return self.found[key]
