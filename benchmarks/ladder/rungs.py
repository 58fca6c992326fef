"""The rungs of verification: the verifier, its permitted cost relative to the work, and the findings.

A *share* is a verifier's CPU seconds over the provider's for the same work in one run. A bar is the highest permitted
share, with its reason in the design. A missed bar is a failure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.built_in import WORKLOAD
from gpu_tasks.market.claims.claims import SECOND_PPM
from gpu_tasks.market.claims.collateral import PPM
from gpu_tasks.market.claims.numbers import ClaimNumbers
from gpu_tasks.market.courts.money import chance_found
from gpu_tasks.market.training.numbers import TrainingNumbers
from gpu_tasks.market.training.showing import looked_at_most

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
"""The highest share of a holder of checkpoints, which computes no step of the run.

A judge of a trace computes steps, and its fee is a tenth of the price.
"""
AUDIT_JUDGES = 2


def _chance(rate_ppm: int) -> float:
    found, of = chance_found(rate_ppm)
    return found / of


CHECKS_EXPECTED = int(ClaimNumbers.check_rate.default) / PPM * (1 + SECOND_PPM / PPM)
"""The checks of an item that a claim expects: a first one, and sometimes a second."""
TRACE_AUDIT_CHANCE = _chance(int(TrainingNumbers.trace_audit_ppm.default))


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
        Rung("checkpoints", "their holder: four blobs read, against their roots", "0.05: half of a judge's fee"),
        Rung("shown", "every node: the hashes of five stretches, by their paths", "1/100: a hundred nodes"),
        Rung("parts", "a judge: four drawn parts of at most twenty, and a named segment", "1.5 x their share"),
        Rung("final audit", "a pair, as often as one is drawn: for each result", "22.8 % of twice the judge's"),
        Rung("fraud claim", "every node: the two paths of a fraud proof", "1/100: a hundred nodes"),
        Rung("fraud proof", "a judge: its segment, computed", "1.5 x 1 / segments"),
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
    judged = looked_at_most(segments) / segments * SLACK
    return {
        "milestones": EVERY_NODE_MOST,
        "checkpoints": HOLDER_MOST,
        "shown": EVERY_NODE_MOST,
        "parts": judged,
        "final audit": TRACE_AUDIT_CHANCE * AUDIT_JUDGES * judged,
        "fraud claim": EVERY_NODE_MOST,
        "fraud proof": SLACK / segments,
    }


def failures(rows: Iterable[Found]) -> list[str]:
    """Return one sentence for each missed bar, with the measured share."""
    return [
        f"{row.workload}, {row.work} of {row.size}: {row.rung} takes {row.share:.4f} of the work, the bar {row.bar:.4f}"
        for row in rows
        if not row.holds
    ]
