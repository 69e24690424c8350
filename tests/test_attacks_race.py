"""Every attack on the race, on the real engine in real workers, with a small random model.

The clock is the processor time of the workers, so that a busy machine changes no verdict. In the
small model a token mostly decides the next one, so that its text runs in circles, which n-gram
lookup drafts; what stands before it still counts enough for a wrong KV to change the text.
"""

import random
import time

import pytest

from autograder.attacks.corpus import PLAIN
from autograder.attacks.race_attacks import PIN, race_attacks
from autograder.checks import race
from autograder.sandbox.processes import descendants
from autograder.sandbox.session import Cell, Sandbox
from autograder.speed_decision import Rules
from autograder.speedup import Race

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
LOAD = 'race_model, race_tokenizer = load_model(dtype="bfloat16")\n'
SMALL = """
import sys, time
from types import SimpleNamespace
from lessons.lib.config import ModelConfig
from lessons.lib.model.weights import build_model

config = ModelConfig(
    vocab_size=32, hidden_size=64, intermediate_size=96, num_layers=4, num_heads=4,
    num_kv_heads=2, head_dim=16, max_context=2048, rope_theta=1e4, rms_norm_eps=1e-5,
    tie_word_embeddings=False,
)
torch.manual_seed(2)
weights = {n: torch.randn(s) * (0.1 if "layers" in n else 1.0) if len(s) > 1 else torch.ones(s)
           for n, s in expected_shapes(config).items()}
race_model = build_model(config, weights)
race_tokenizer = SimpleNamespace(
    eos_token_ids=frozenset(), decode=lambda ids: "",
    apply_chat_template=lambda messages: [ord(c) % 32 for c in messages[0]["content"][-24:]],
)
frame = sys._getframe()
while frame is not None:  # the worker's clock is of the kind of the test's
    if "Stopwatch" in frame.f_globals:
        frame.f_globals["now"] = time.process_time
    frame = frame.f_back
"""
RULES = Rules(bar=1.4, pairs=6, attempts=2)
METHODS = [
    {
        "name": "ngram-4",
        "conditional_acceptance": [0.9] * 4,
        "draft_ms": 0.1,
        "verify_ms": 12.0,
        "overhead_ms": 0.1,
        "extra_memory_gb": 0.01,
    }
]


def processor_time(*boxes):
    """A clock: seconds that the workers, and what they started, have computed."""

    def read():
        roots = [box._worker.process.popen.pid for box in boxes if box._worker is not None]
        return sum(used(pid) for root in roots for pid in descendants(root))

    return read


def used(pid):
    """Processor time of all threads of a process (Linux: clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    driver = tmp_path_factory.mktemp("driver") / "driver.py"
    text = race.DRIVER.read_text(encoding="utf-8")
    assert LOAD in text
    driver.write_text(text.replace(LOAD, SMALL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "DRIVER", driver)
        patch.setattr(race, "NUM_TOKENS", 128)
        patch.setattr(race, "NEAR_TIE", 0.001)  # in float32 rounding moves far less
        with Sandbox(race.LIMITS) as box:
            box.run_cells([race.driver_cell()])
            yield box


def raced(baseline, cell):
    with Sandbox(race.LIMITS) as student:
        student.run_cells([race.driver_cell(), cell])
        trial = race.make_trial(baseline, 4)
        sides = (race.Engine(student, (METHODS, 10.0, 1.0)), race.Engine(baseline, ([], 0.0, 0.0)))
        clock = processor_time(student, baseline)
        return Race(*sides, trial, RULES, race.LIMITS.call_s, clock=clock).run(random.Random(2))


def test_the_right_answer_wins(baseline):
    decision = raced(baseline, Cell("right", "exercise", PLAIN["right"], PIN))
    assert decision.verdict == "pass", decision


@pytest.mark.parametrize("attack", race_attacks(), ids=lambda attack: attack.id)
def test_an_attack_gets_what_it_must(baseline, attack):
    decision = raced(baseline, attack.cell)
    assert decision.verdict == attack.expect, decision
    assert "did not return" not in decision.reason, "it must be stopped, not stumble"
