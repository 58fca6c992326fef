"""The rungs of verification: the verifier, its permitted cost relative to the work, and the findings.

A *share* is a verifier's CPU seconds over the provider's for the same work in one run. A bar is the highest permitted
share, with its reason in the design. A missed bar is a failure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.built_in import WORKLOAD
from gpu_tasks.market.claims.claims import SECOND_PPM
from gpu_tasks.market.claims.collateral import PPM, item_rate
from gpu_tasks.market.claims.numbers import ClaimNumbers
from gpu_tasks.market.training.numbers import TrainingNumbers

SLACK = 1.5
"""The tolerance of bars counted in steps or passes, for the reading and hashing of states."""
NODES = 100
EVERY_NODE_MOST = 1 / NODES
"""The share of a check that every node makes at import. A hundred nodes together take no longer than the provider."""
SHORT_CHECK = {WORKLOAD: 0.7}
"""Workloads with a check shorter than the work, and its highest share. The design has 0.2 to 0.7."""
PASSES_OF_A_CHECK = 2
"""The passes of other workloads: one compares the output, and one takes the fingerprint."""
SPOTS = {"render-tile": 256}
"""Workloads whose output can be checked at drawn places alone, and the number of places that a customer checks."""
SPOTS_BESIDE = 0.05
"""The share for opening a scene and calling a backend for few pixels, on top of the pixels' own share."""
HOLDER_MOST = 0.05
"""The highest share of a holder of checkpoints, which computes no step of the run."""
NO_STEP_MOST = 0.01
"""The highest share of work on hashes alone, for a checker and for the provider."""
_CHECKS_OF_A_DRAWN_ITEM = 1 + SECOND_PPM / PPM
"""The checks of a drawn item that a claim expects: a first one, and sometimes a second."""
CHECKS_EXPECTED = int(ClaimNumbers.check_rate.default) / PPM * _CHECKS_OF_A_DRAWN_ITEM
"""The checks of each item of a unit that a claim expects."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung of verification. `bar` describes its bars in words."""

    name: str
    does: str
    bar: str


UNIT_RUNGS = {
    rung.name: rung
    for rung in (
        Rung("attestation", "every node: form and signature of the reveal", "1/100: a hundred nodes"),
        Rung(
            "check", "a checker or a voter: the output, and its fingerprint", "0.7 of a text, else twice 1.5 x the work"
        ),
        Rung("sample", "the provider: its fingerprint for a checker", "0.7 of a text, else twice 1.5 x the work"),
        Rung("claim", "checks and samples that a settled item expects, at rate 1/10", "12.5 % of both"),
    )
}
SPOT_RUNG = Rung("spots", "a customer: 256 drawn pixels", "1.5 x their share, and 0.05")
TASK_RUNGS = {
    rung.name: rung
    for rung in (
        Rung("milestones", "every node: form and signature of four milestones", "1/100: a hundred nodes"),
        Rung("checkpoints", "their holder: four blobs read, against their roots", "0.05: no step computed"),
        Rung("delivery", "a checker: the hashes of all states, against the root", "1/100: no step computed"),
        Rung("item", "a checker or a voter: a segment, with its trail", "1.5 x 1 / segments"),
        Rung("sample", "the provider: the trails that it keeps, hashed", "1/100: no step computed"),
        Rung("claim", "checks that a settled task expects, at rate 1/3", "1.25 x 1/3 of all items, at most 4"),
    )
}


@dataclass(frozen=True, slots=True)
class Found:
    """A rung at one size of work. Seconds are CPU time."""

    workload: str
    work: str
    """`unit` or `task`."""
    size: str
    rung: str
    provider_s: float
    verifier_s: float
    bar: float

    @property
    def share(self) -> float:
        """The verifier's CPU time over the provider's."""
        return self.verifier_s / self.provider_s

    @property
    def holds(self) -> bool:
        """True if the share is within its bar."""
        return self.share <= self.bar


def unit_bars(workload: str) -> dict[str, float]:
    """Return the bar of each rung of a unit."""
    check = SHORT_CHECK.get(workload, PASSES_OF_A_CHECK * SLACK)
    return {
        "attestation": EVERY_NODE_MOST,
        "check": check,
        "sample": check,
        "claim": CHECKS_EXPECTED * 2 * check,
    }


def spots_bar(workload: str, places: int) -> float:
    """Return the bar of a check at drawn places of an output with `places` places."""
    return SLACK * min(1.0, SPOTS[workload] / places) + SPOTS_BESIDE


def task_bars(segments: int) -> dict[str, float]:
    """Return the bar of each rung of a task whose run has `segments` segments."""
    return {
        "milestones": EVERY_NODE_MOST,
        "checkpoints": HOLDER_MOST,
        "delivery": NO_STEP_MOST,
        "item": SLACK / segments,
        "sample": NO_STEP_MOST,
        "claim": items_checked(segments) * SLACK / segments,
    }


def items_checked(segments: int) -> float:
    """Return the checks of items that the claim of a task with so many segments expects."""
    rate_ppm = item_rate(segments, int(TrainingNumbers.check_rate.default))
    return segments * rate_ppm / PPM * _CHECKS_OF_A_DRAWN_ITEM


def failures(rows: Iterable[Found]) -> list[str]:
    """Return one sentence for each missed bar, with the measured share."""
    return [
        f"{row.workload}, {row.work} of {row.size}: {row.rung} takes {row.share:.4f} of the work, the bar {row.bar:.4f}"
        for row in rows
        if not row.holds
    ]
