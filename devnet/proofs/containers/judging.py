"""What must have become of each scene: how its task ended, who was paid what to the grain, and that nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from devnet.measuring.report import Report
from gpu_tasks.market.training.money import TaskOutcome


@dataclass(frozen=True, slots=True)
class ContainerScene:
    """A task, what is done to it, and how it must end."""

    name: str
    title: str
    kind: str
    command: str
    ends: TaskOutcome
    seconds: int
    """Bought, in intervals of `interval`."""
    interval: int
    is_stopped: bool = False
    """By its customer, once an interval is paid."""
    kills: bool = False
    """Its provider's daemon, with -9, once an interval is paid; it is started again at once."""
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    """On which its program listens; its customer enters it once an interval is paid."""
    copies: int = 1
    """Devices that compute it, and are compared."""
    liar: str = ""
    """Whose outputs are bent, of those that compute it."""


@dataclass(slots=True)
class ContainerFinding:
    """What became of a scene."""

    scene: ContainerScene
    outcome: str
    intervals: int
    seconds: float
    """From submission to the end."""
    paid: int
    """Grains, to providers, by `ogpu describe`."""
    failures: list[str] = field(default_factory=list)

    def as_json(self) -> Report:
        """For the report."""
        return {
            "scene": self.scene.name, "outcome": self.outcome, "intervals": self.intervals, "seconds": self.seconds,
            "paid_grains": self.paid, "failures": self.failures,
        }  # fmt: skip


def judge(
    finding: ContainerFinding,
    told: Mapping[str, Any],
    moved: Mapping[str, int],
    outputs: Mapping[str, bytes] | None,
    left: list[str],
) -> None:
    """Note what is not as it must be: `told` is what `ogpu describe` says, `moved` what each stash has won."""
    scene, failures = finding.scene, finding.failures
    if finding.outcome != scene.ends.name.lower():
        failures.append(f"it ended as {finding.outcome}, not {scene.ends.name.lower()}")
    if (outputs or {}) != scene.outputs:
        failures.append(f"its outputs are {sorted(outputs or {})}, not {sorted(scene.outputs)}, or others within")
    if left:
        failures.append(f"containers are left: {', '.join(left)}")
    _judge_copies(finding, told)
    won = dict.fromkeys(moved, 0)
    for row in told["payments"]:
        if row["account"] in won and row["party"] != "customer":
            if row["paid"] is None or row["lost"] is None:
                failures.append(f"what {row['party']} was paid is not told: {row['for']}")
                continue
            won[row["account"]] += int(row["paid"]["grains"]) - int(row["lost"]["grains"])
    for account, grains in moved.items():
        if won[account] != grains:
            failures.append(f"{account} has won {grains} grains, and {won[account]} are told")


def _judge_copies(finding: ContainerFinding, told: Mapping[str, Any]) -> None:
    """Who was outvoted is the liar, and nobody else; and it has lost something."""
    if finding.scene.copies == 1:
        return
    rows = [row for row in told["payments"] if row["party"] == "provider"]
    if len(rows) != finding.scene.copies:
        finding.failures.append(f"{len(rows)} providers had a part in it, not {finding.scene.copies}")
    outvoted = sum(row["for"] == "outvoted" and int(row["lost"]["grains"]) > 0 for row in rows)
    if outvoted != bool(finding.scene.liar):
        finding.failures.append(f"{outvoted} of its replicas are outvoted")
