"""`make escape`: its attempts have names and words, and those on the network are made, in namespaces of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("docker", reason="the library docker is not installed")

from devnet.launcher.dockerd import why_no_engine
from devnet.launcher.processes import source_path
from devnet.proofs.escape.attempt import EscapeChecks
from devnet.proofs.escape.catalogue import ATTEMPTS
from devnet.proofs.escape.course import AttemptFinding
from devnet.proofs.escape.ground import missing_programs

DOCUMENT = Path(__file__).parents[3] / "docs" / "robustness.md"
TRIED = ("ask_the_cloud", "reach_the_machine", "reach_another_container", "swap_the_image", "outlive_the_provider")


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
    finding = AttemptFinding("a", "b", held=["x"])
    assert finding.is_stopped
    finding.harm.append("y")
    assert not finding.is_stopped


@pytest.mark.e2e
@pytest.mark.nightly
def test_a_stranger_with_a_network_reaches_the_world_alone(tmp_path: Path) -> None:
    if why := why_no_engine():
        pytest.skip(f"no container engine: {why}")
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = [sys.executable, "-m", "devnet.proofs.escape", "--only", ",".join(TRIED)]
    done = subprocess.run(command, cwd=tmp_path, env=source_path(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
    report = json.loads((tmp_path / "out" / "escape.json").read_text(encoding="utf-8"))
    assert (report["attempts"], report["missed"], report["harmed"]) == (len(TRIED), [], [])
