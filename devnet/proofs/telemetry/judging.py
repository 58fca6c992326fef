"""What was heard of a task and what came of it; whether the bars hold.

The bars: whatever the broker does, the task ends with a result, as many milestones count, and it takes at most
`DELAY_MAX` times as long as undisturbed and some blocks; what a stranger told is never taken for the provider's; what
was heard is heard once; what is wrong about the broker is said.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from devnet.proofs.telemetry.scenes import TelemetryScene
from devnet.proofs.telemetry.stranger import FORGED_EVENT

DELAY_MAX = 1.5
BLOCKS_SPARED = 8
MILESTONES = 6


@dataclass(slots=True)
class TelemetryFinding:
    """One scene. `heard` are the rows of `ogpu logs -f`."""

    scene: TelemetryScene
    heard: list[dict[str, Any]]
    outcome: str
    milestones: int
    blocks_at_work: int
    failures: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """What was said of the broker."""
        return [row["says"] for row in self.heard if row["kind"] == "problem"]

    @property
    def notes(self) -> int:
        """How much was heard."""
        return sum(row["kind"] != "problem" for row in self.heard)

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {
            "scene": self.scene.name,
            "outcome": self.outcome,
            "milestones": self.milestones,
            "blocks_at_work": self.blocks_at_work,
            "notes": self.notes,
            "problems": dict(Counter(self.problems)),
            "failures": self.failures,
        }


def judge(finding: TelemetryFinding, undisturbed: TelemetryFinding | None) -> None:
    """Note every bar that does not hold; `undisturbed` is the scene in which nothing went wrong."""
    scene, fail = finding.scene, finding.failures.append
    computed = Counter(
        row["fields"].get("milestone") for row in finding.heard if row["kind"] == "event" and row["event"] == "computed"
    )
    if finding.outcome != "on_time" or finding.milestones != MILESTONES:
        fail(f"the task ended {finding.outcome}, with {finding.milestones} milestones")
    if any(row.get("event") == FORGED_EVENT for row in finding.heard):
        fail("what a stranger told was taken for the provider's")
    if twice := [number for number, count in computed.items() if count > 1]:
        fail(f"milestones {twice} were heard of more than once")
    if scene.hears_all and len(computed) != MILESTONES:
        fail(f"of {MILESTONES} milestones {len(computed)} were heard of")
    if not finding.notes:
        fail("nothing was heard")
    said = " | ".join(finding.problems)
    if scene.says is None and said:
        fail(f"it was said: {said}")
    if scene.says and scene.says not in said:
        fail(f"it was not said that the broker {scene.says}")
    if undisturbed is not None and scene.steps == undisturbed.scene.steps:
        most = int(DELAY_MAX * undisturbed.blocks_at_work) + BLOCKS_SPARED
        if finding.blocks_at_work > most:
            fail(f"it took {finding.blocks_at_work} blocks, and at most {most} are allowed")
