"""`make escape`: its attempts have names and descriptions."""

from pathlib import Path

import pytest

pytest.importorskip("docker", reason="the library docker is not installed")

from devnet.proofs.escape.__main__ import AttemptFinding, figures
from devnet.proofs.escape.attempts import ATTEMPTS
from devnet.proofs.escape.scene import EscapeChecks

DOCUMENT = Path(__file__).parents[3] / "docs" / "robustness.md"


def test_every_attempt_has_words_and_a_row() -> None:
    assert len(ATTEMPTS) >= 20
    assert all(attempt.tries.endswith(".") for attempt in ATTEMPTS.values())
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in ATTEMPTS if f"`{name}`" not in text] == []


def test_a_bar_that_is_missed_is_told_with_what_was_seen() -> None:
    checks = EscapeChecks()
    checks.that([1], "held")
    checks.that([], "missed", {"seen": 1})
    assert (checks.held, checks.misses) == (["held"], ["missed: {'seen': 1}"])
    stopped, harmed = AttemptFinding(1.0, ["x"]), AttemptFinding(1.0, ["x"], ["z"], ["y"])
    assert (stopped.failures(), harmed.failures()) == ([], ["z", "y"])
    assert figures({"a": stopped, "b": harmed}).startswith(
        "2 ways tried, 1 stopped; 3 bars, the provider unharmed after 1;"
    )
