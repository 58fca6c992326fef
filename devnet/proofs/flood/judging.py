"""The bars, and which of them an attack missed.

Pure. The floors are what two busy processors make of nothing: below them a ratio says more of the machine than of the
node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from devnet.proofs.flood.measuring.records import AttackFigures
from devnet.proofs.flood.scene import YOUNG_SECONDS

INTERVAL_RATIO = 1.2
HOGGED_INTERVAL_RATIO = 2.0
"""Beside programs that want every processor; the quiet stretch is measured beside them too."""
DOOR_RATIO = 5.0
DOOR_FLOOR_MS = 100
MEMORY_RATIO, MEMORY_FLOOR_BYTES = 1.2, 30_000_000
CUT_SECONDS = YOUNG_SECONDS
LOG_BYTES_PER_SECOND = 20_000
OTHERS_TOLD = 0.1
"""CPU seconds a second of other programs from which on a miss that is measured in time names them."""
DISK_STILL_MS = 100
"""A small write that took longer held all nodes up: what is missed in time beside it is tried again."""
TRIES_MAX = 3
"""An attack that makes the disk stand still itself does so each time."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Resident bytes of one role before, at most, and after the attack."""

    before: int
    peak: int
    after: int

    @property
    def limit(self) -> int:
        """What it may be afterwards."""
        return round(self.before * MEMORY_RATIO) + MEMORY_FLOOR_BYTES


@dataclass(slots=True)
class BarResult:
    """Everything measured of one attack."""

    attack: str
    finding: str
    rule: str
    seconds: float
    quiet_intervals: AttackFigures
    intervals: AttackFigures
    quiet_doors: Mapping[str, AttackFigures]
    doors: Mapping[str, AttackFigures]
    cpu_per_second: Mapping[str, float]  # beyond the quiet share, by role over all nodes
    cpu_by_node: Mapping[str, float]  # all of it, while the attack lasted
    others_cpu_per_second: float  # of programs that have nothing to do with the run
    slowest_write_ms: int  # of the machine's disk, while the attack lasted
    cpu_us_per_message: float | None
    memory: Mapping[str, MemoryUse]
    messages: int
    sent_bytes: int
    attacker_cpu_seconds: float
    outcomes: Mapping[str, int]
    cut_seconds: Sequence[float | None]
    recovered_seconds: float | None
    log_bytes_per_second: float
    tracebacks: int
    violations: Sequence[str]
    hogged: bool = False
    """Beside programs that want every processor; so were the quiet figures."""
    misses: list[str] = field(default_factory=list)
    earlier_misses: list[list[str]] = field(default_factory=list)
    """Of earlier tries beside a disk that stood still; empty if there were none."""

    @property
    def last_cut(self) -> float | None:
        """When the last of its connections was ended; None if one was not, or none was made."""
        cuts = [cut for cut in self.cut_seconds if cut is not None]
        return max(cuts) if cuts and len(cuts) == len(self.cut_seconds) else None


def misses(finding: BarResult) -> list[str]:
    """Each bar that does not hold, as a line with its figures."""
    return [
        *_finality(finding),
        *_doors(finding),
        *_memory(finding),
        *_cut(finding),
        *_logs(finding),
        *finding.violations,
    ]


def is_to_be_tried_again(finding: BarResult) -> bool:
    """Whether all that was missed is time, while the machine's disk stood still, and it was not tried often enough."""
    late = [*_finality(finding), *_doors(finding)]
    is_of_the_disk = finding.misses == late and finding.slowest_write_ms >= DISK_STILL_MS
    return bool(finding.misses) and is_of_the_disk and len(finding.earlier_misses) + 1 < TRIES_MAX


def _finality(finding: BarResult) -> list[str]:
    quiet, seen = finding.quiet_intervals.p99_ms, finding.intervals.p99_ms
    if quiet is None or seen is None:
        return ["finality: no interval between final blocks was seen"]
    bar = round(quiet * (HOGGED_INTERVAL_RATIO if finding.hogged else INTERVAL_RATIO))
    text = f"finality: interval p99 {seen} ms, quiet {quiet} ms, bar {bar} ms{_busy(finding)}"
    return [text] if seen > bar else []


def _doors(finding: BarResult) -> list[str]:
    found = []
    for door, seen in finding.doors.items():
        name, quiet = _judged(finding, finding.quiet_doors[door])
        _, late = _judged(finding, seen)
        if late is None or quiet is None:
            found.append(f"{door}: no honest client could try")
            continue
        bar = max(round(quiet * DOOR_RATIO), DOOR_FLOOR_MS)
        if late > bar:
            refused = f", {seen.failed} of {seen.count} refused" if seen.failed else ""
            found.append(f"{door}: honest {name} {late} ms{refused}, quiet {quiet} ms, bar {bar} ms{_busy(finding)}")
    return found


def _judged(finding: BarResult, figures: AttackFigures) -> tuple[str, int | None]:
    """Return the percentile that a bar judges: beside busy processors the last percent is the system's own."""
    return ("p95", figures.p95_ms) if finding.hogged else ("p99", figures.p99_ms)


def _busy(finding: BarResult) -> str:
    """What else the machine did meanwhile: it explains a late answer; a disk that stood still brings another try."""
    told = []
    if finding.others_cpu_per_second >= OTHERS_TOLD:
        told.append(f"other programs used {finding.others_cpu_per_second:.1f} processors")
    if finding.slowest_write_ms >= DISK_STILL_MS:
        told.append(f"the disk stood still for {finding.slowest_write_ms} ms")
    return f" ({', '.join(told)})" if told else ""


def _memory(finding: BarResult) -> list[str]:
    return [
        f"memory: {role} had {_megabytes(memory.before)} MB before, {_megabytes(memory.peak)} at most, "
        f"{_megabytes(memory.after)} after, bar {_megabytes(memory.limit)}"
        for role, memory in finding.memory.items()
        if memory.after > memory.limit
    ]


def _cut(finding: BarResult) -> list[str]:
    """Who breaks a rule is to be gone in time, from every node."""
    if not finding.rule:
        return []
    late = [cut for cut in finding.cut_seconds if cut is None or cut > CUT_SECONDS]
    if not late:
        return []
    stayed = sum(cut is None for cut in late)
    text = f"{stayed} of {len(finding.cut_seconds)} connections were never ended" if stayed else ""
    slow = max((cut for cut in late if cut is not None), default=None)
    text = ", ".join(filter(None, (text, f"the slowest end took {slow:.1f} s" if slow is not None else "")))
    return [f"attacker: {text}, bar {CUT_SECONDS:.0f} s ({finding.rule})"]


def _logs(finding: BarResult) -> list[str]:
    found = []
    if finding.log_bytes_per_second > LOG_BYTES_PER_SECOND:
        rate, bar = finding.log_bytes_per_second / 1000, LOG_BYTES_PER_SECOND / 1000
        found.append(f"log: {rate:.0f} kB a second, bar {bar:.0f}")
    if finding.tracebacks:
        found.append(f"log: {finding.tracebacks} stack traces")
    return found


def _megabytes(size: int) -> int:
    return round(size / 1e6)


def as_json(finding: BarResult) -> dict[str, Any]:
    """For out/flood.json."""
    return asdict(finding) | {"last_cut_seconds": finding.last_cut}
