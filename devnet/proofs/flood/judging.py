"""What was seen, with times; the figures of a stretch of time; the bars, and which of them an attack missed.

Pure: times are arguments, in seconds of the monotonic clock. Always: what was still waiting when a stretch ended counts
with the time it had waited by then or, if known, until it came, so that a standstill never looks quiet. The floors are
what two busy processors make of nothing: below them a ratio says more of the machine than of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from devnet.proofs.flood.attack import YOUNG_SECONDS, AttackAccount
from devnet.stage.measuring.latency import percentile

FAILED_MS = 10_000
"""What an honest call that was refused counts as: as long as the longest that one waits for."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one time to another."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start


@dataclass(slots=True)
class HonestCall:
    """One try of an honest client at a door."""

    door: str
    began: float
    ended: float | None = None
    is_answered: bool = False

    def latency_ms(self, now: float) -> int:
        """How long it took, or has taken."""
        if self.ended is not None and not self.is_answered:
            return FAILED_MS
        return round(((now if self.ended is None else self.ended) - self.began) * 1000)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """One role of one node: the CPU seconds of its processes since their starts, by pid, and their resident bytes."""

    cpu_seconds: dict[int, float]
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes at one time, by node and role (`Bob/rpc`)."""

    at: float
    usages: dict[str, ProcessUsage]
    machine_seconds: float = 0.0
    """CPU seconds of the whole machine, this program's excepted."""


@dataclass(frozen=True, slots=True)
class DiskWrite:
    """A small write of this program's, and how long it took until it was on the disk."""

    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AttackFigures:
    """Percentiles of some milliseconds; None of nothing."""

    count: int
    p50_ms: int | None
    p99_ms: int | None
    failed: int = 0
    p95_ms: int | None = None


@dataclass(slots=True)
class Records:
    """Everything since the run began."""

    finals: dict[str, list[float]] = field(default_factory=dict)  # by node: when it told of a final block
    calls: list[HonestCall] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    writes: list[DiskWrite] = field(default_factory=list)

    def intervals(self, stretch: Stretch, now: float, *, is_whole: bool) -> list[int]:
        """Milliseconds between final blocks, of all nodes that are watched.

        With `is_whole` only those that began and ended inside; else each that touches the stretch, as far as it went.
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
        """The same as figures, over some stretches."""
        found = [value for stretch in stretches for value in self.intervals(stretch, now, is_whole=is_whole)]
        return AttackFigures(len(found), percentile(found, 50), percentile(found, 99), p95_ms=percentile(found, 95))

    def door_figures(self, door: str, stretches: Sequence[Stretch], now: float) -> AttackFigures:
        """What honest clients at a door saw, of the calls that they began in those stretches."""
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
        """CPU seconds that each role used in a stretch; a process that is new counts from its start."""
        used: dict[str, float] = {}
        inside = [sample for sample in self.samples if stretch.start <= sample.at <= stretch.end]
        for before, after in pairwise(inside):
            for role, usage in after.usages.items():
                earlier = before.usages[role].cpu_seconds if role in before.usages else {}
                spent = sum(seconds - earlier.get(pid, 0.0) for pid, seconds in usage.cpu_seconds.items())
                used[role] = used.get(role, 0.0) + spent
        return used

    def others_seconds(self, stretch: Stretch) -> float:
        """CPU seconds in a stretch of what is neither of the network nor this program."""
        inside = [sample.machine_seconds for sample in self.samples if stretch.start <= sample.at <= stretch.end]
        whole = inside[-1] - inside[0] if inside else 0.0
        return max(0.0, whole - sum(self.cpu_seconds(stretch).values()))

    def slowest_write_ms(self, stretch: Stretch) -> int:
        """The longest that the disk took for a small write, of those that a stretch touches."""
        writes = (write for write in self.writes if write.began < stretch.end)
        touching = (write.seconds for write in writes if write.began + write.seconds > stretch.start)
        return round(1000 * max(touching, default=0.0))

    def resident_at(self, at: float) -> dict[str, int]:
        """Resident bytes of each role, as of the last sample up to then."""
        earlier = [sample for sample in self.samples if sample.at <= at]
        return {role: usage.resident_bytes for role, usage in earlier[-1].usages.items()} if earlier else {}

    def resident_peak(self, stretch: Stretch) -> dict[str, int]:
        """The most that each role had in a stretch."""
        peak: dict[str, int] = {}
        for sample in self.samples:
            if stretch.start <= sample.at <= stretch.end:
                for role, usage in sample.usages.items():
                    peak[role] = max(peak.get(role, 0), usage.resident_bytes)
        return peak


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
    others_cpu_per_second: float  # of programs that have nothing to do with the run
    slowest_write_ms: int  # of the machine's disk, while the attack lasted
    memory: Mapping[str, MemoryUse]
    account: AttackAccount
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
        cuts = [cut for cut in self.account.cut_seconds if cut is not None]
        return max(cuts) if cuts and len(cuts) == len(self.account.cut_seconds) else None


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
