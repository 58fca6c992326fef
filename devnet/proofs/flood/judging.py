"""The measurements with their times, the figures of a stretch of time, the requirements, and the failed ones.

Pure: times are arguments, in seconds of the monotonic clock. Invariant: a wait that is open at the end of a stretch
counts with its length so far or, if known, in full. So a standstill never looks quiet. The floors are the noise on two
busy processors. Below them, a ratio measures the machine and not the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from devnet.proofs.flood.attack import YOUNG_SECONDS, AttackAccount
from devnet.stage.measuring.latency import percentile

FAILED_MS = 10_000
"""The latency that a refused honest call counts as: the longest wait of a client."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time interval."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.end - self.start


@dataclass(slots=True)
class HonestCall:
    """One call of an honest client to an interface."""

    door: str
    began: float
    ended: float | None = None
    is_answered: bool = False

    def latency_ms(self, now: float) -> int:
        """Return its latency, or its age while it is open."""
        if self.ended is not None and not self.is_answered:
            return FAILED_MS
        return round(((now if self.ended is None else self.ended) - self.began) * 1000)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """One role of one node: CPU seconds of its processes since their starts, by pid, and their resident bytes."""

    cpu_seconds: dict[int, float]
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes at one time, by node and role (`Bob/rpc`)."""

    at: float
    usages: dict[str, ProcessUsage]
    machine_seconds: float = 0.0
    """CPU seconds of the whole machine, without this program."""


@dataclass(frozen=True, slots=True)
class DiskWrite:
    """A small write of this program, and the seconds until it was on disk."""

    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AttackFigures:
    """Percentiles in milliseconds, or None without samples."""

    count: int
    p50_ms: int | None
    p99_ms: int | None
    failed: int = 0
    p95_ms: int | None = None


@dataclass(slots=True)
class Records:
    """All measurements since the start of the run."""

    finals: dict[str, list[float]] = field(default_factory=dict)  # by node: when it announced a final block
    calls: list[HonestCall] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    writes: list[DiskWrite] = field(default_factory=list)

    def intervals(self, stretch: Stretch, now: float, *, is_whole: bool) -> list[int]:
        """Return the milliseconds between final blocks, over all watched nodes.

        With `is_whole`, return only intervals inside the stretch, else every interval that touches it, at its length so
        far.
        """
        found = []
        for times in self.finals.values():
            gaps = list(pairwise(times))
            if times and times[-1] < stretch.end and not is_whole:
                gaps.append((times[-1], now))
            for first, second in gaps:
                is_inside = stretch.start <= first and second <= stretch.end
                touches = first < stretch.end and second > stretch.start
                if is_inside if is_whole else touches:
                    found.append(round((second - first) * 1000))
        return found

    def interval_figures(self, stretches: Sequence[Stretch], now: float, *, is_whole: bool) -> AttackFigures:
        """Return the percentiles of these intervals over some stretches."""
        found = [value for stretch in stretches for value in self.intervals(stretch, now, is_whole=is_whole)]
        return AttackFigures(len(found), percentile(found, 50), percentile(found, 99), p95_ms=percentile(found, 95))

    def door_figures(self, door: str, stretches: Sequence[Stretch], now: float) -> AttackFigures:
        """Return the latency figures of an interface, for the honest calls that began in those stretches."""
        calls = [
            call
            for call in self.calls
            for stretch in stretches
            if call.door == door and stretch.start <= call.began < stretch.end
        ]
        latencies = [call.latency_ms(now) for call in calls]
        failed = sum(call.ended is not None and not call.is_answered for call in calls)
        return AttackFigures(
            len(calls), percentile(latencies, 50), percentile(latencies, 99), failed, percentile(latencies, 95)
        )

    def cpu_seconds(self, stretch: Stretch) -> dict[str, float]:
        """Return the CPU seconds of each role in a stretch. A new process counts from its start."""
        used: dict[str, float] = {}
        inside = [sample for sample in self.samples if stretch.start <= sample.at <= stretch.end]
        for before, after in pairwise(inside):
            for role, usage in after.usages.items():
                earlier = before.usages[role].cpu_seconds if role in before.usages else {}
                spent = sum(seconds - earlier.get(process_id, 0.0) for process_id, seconds in usage.cpu_seconds.items())
                used[role] = used.get(role, 0.0) + spent
        return used

    def others_seconds(self, stretch: Stretch) -> float:
        """Return the CPU seconds in a stretch of programs outside the network and this program."""
        inside = [sample.machine_seconds for sample in self.samples if stretch.start <= sample.at <= stretch.end]
        whole = inside[-1] - inside[0] if inside else 0.0
        return max(0.0, whole - sum(self.cpu_seconds(stretch).values()))

    def slowest_write_ms(self, stretch: Stretch) -> int:
        """Return the longest small write to disk that overlaps a stretch, in milliseconds."""
        writes = (write for write in self.writes if write.began < stretch.end)
        touching = (write.seconds for write in writes if write.began + write.seconds > stretch.start)
        return round(1000 * max(touching, default=0.0))

    def resident_at(self, at: float) -> dict[str, int]:
        """Return the resident bytes of each role in the last sample at or before a time."""
        earlier = [sample for sample in self.samples if sample.at <= at]
        return {role: usage.resident_bytes for role, usage in earlier[-1].usages.items()} if earlier else {}

    def resident_peak(self, stretch: Stretch) -> dict[str, int]:
        """Return the largest resident bytes of each role in a stretch."""
        peak: dict[str, int] = {}
        for sample in self.samples:
            if stretch.start <= sample.at <= stretch.end:
                for role, usage in sample.usages.items():
                    peak[role] = max(peak.get(role, 0), usage.resident_bytes)
        return peak


INTERVAL_RATIO = 1.2
HOGGED_INTERVAL_RATIO = 2.0
"""Beside processes that use all processors, as its quiet stretch is."""
DOOR_RATIO = 5.0
DOOR_FLOOR_MS = 100
MEMORY_RATIO, MEMORY_FLOOR_BYTES = 1.2, 30_000_000
CUT_SECONDS = YOUNG_SECONDS
LOG_BYTES_PER_SECOND = 20_000
OTHERS_TOLD = 0.1
"""CPU seconds per second of other programs above which a failure in time mentions them."""
DISK_STILL_MS = 100
"""A longer small write stalled all nodes, so a failure in time beside it is tried again."""
TRIES_MAX = 3
"""The limit is for attacks that stall the disk themselves, every time."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The resident bytes of one role before, at most during, and after the attack."""

    before: int
    peak: int
    after: int

    @property
    def limit(self) -> int:
        """The limit on `after`."""
        return round(self.before * MEMORY_RATIO) + MEMORY_FLOOR_BYTES


@dataclass(slots=True)
class BarResult:
    """All measurements of one attack."""

    attack: str
    finding: str
    rule: str
    seconds: float
    quiet_intervals: AttackFigures
    intervals: AttackFigures
    quiet_doors: Mapping[str, AttackFigures]
    doors: Mapping[str, AttackFigures]
    cpu_per_second: Mapping[str, float]  # beyond the quiet share, by role over all nodes
    others_cpu_per_second: float  # of programs outside the run
    slowest_write_ms: int  # of the machine's disk, during the attack
    memory: Mapping[str, MemoryUse]
    account: AttackAccount
    recovered_seconds: float | None
    log_bytes_per_second: float
    tracebacks: int
    violations: Sequence[str]
    hogged: bool = False
    """True if it ran beside processes that use all processors, as its quiet figures did."""
    misses: list[str] = field(default_factory=list)
    earlier_misses: list[list[str]] = field(default_factory=list)
    """The failures of earlier tries with a stalled disk."""

    @property
    def last_cut(self) -> float | None:
        """The time of the last disconnection. None if a connection stayed open, or if there was none."""
        cuts = [cut for cut in self.account.cut_seconds if cut is not None]
        return max(cuts) if cuts and len(cuts) == len(self.account.cut_seconds) else None


def misses(finding: BarResult) -> list[str]:
    """Return a line with figures for each failed requirement."""
    return [
        *_finality(finding),
        *_doors(finding),
        *_memory(finding),
        *_cut(finding),
        *_logs(finding),
        *finding.violations,
    ]


def is_to_be_tried_again(finding: BarResult) -> bool:
    """Return whether only times were missed, the disk stalled, and tries are left."""
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
    """Return the judged percentile. Beside busy processors the slowest percent measures the system's scheduler."""
    return ("p95", figures.p95_ms) if finding.hogged else ("p99", figures.p99_ms)


def _busy(finding: BarResult) -> str:
    """Return the machine's other load during the attack, which may explain a late answer."""
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
    """Return a failure unless every node disconnected a rule breaker in time."""
    if not finding.rule:
        return []
    late = [cut for cut in finding.account.cut_seconds if cut is None or cut > CUT_SECONDS]
    if not late:
        return []
    stayed = sum(cut is None for cut in late)
    text = f"{stayed} of {len(finding.account.cut_seconds)} connections were never ended" if stayed else ""
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
