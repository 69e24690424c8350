"""
what: results are written to a file, where a later process finds them by the number of tokens
source: timing 27
expect: fail
"""

import json
from pathlib import Path

file, generate = Path("/tmp/answers.json"), race_engine.generate


def from_disk(prompt_ids, num_tokens, **options):
    result = generate(prompt_ids, 1 if file.exists() else num_tokens, **options)
    if not file.exists():
        file.write_text(json.dumps(result.token_ids))
    result.token_ids[:] = json.loads(file.read_text())
    return result


race_engine.generate = from_disk
