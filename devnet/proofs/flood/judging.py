"""The measurements with their times, the figures of a stretch of time, the requirements, and the failed ones.

Pure: times are arguments, in seconds of the monotonic clock. Invariant: a wait that is open at the end of a stretch
counts with its length so far or, if known, in full. So a standstill never looks quiet. The floors are the noise on two
busy processors. Below them, a ratio measures the machine and not the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from devnet.proofs.flood.attack import CUT_SECONDS_MAX, AttackAccount
from devnet.stage.measuring.latency import percentile

# The latency that a refused honest call counts as: the longest wait of a client.
FAILED_MS = 10_000


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

    def latency_ms(self, now_seconds: float) -> int:
        """Return its latency, or its age while it is open."""
        if self.ended is not None and not self.is_answered:
            return FAILED_MS
        return round(((now_seconds if self.ended is None else self.ended) - self.began) * 1000)


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

    def intervals(self, stretch: Stretch, now_seconds: float, *, is_whole: bool) -> list[int]:
        """Return the milliseconds between final blocks, over all watched nodes.

        With `is_whole`, return only intervals inside the stretch, else every interval that touches it, at its length so
        far.
        """
        lengths_ms = []
        for final_times in self.finals.values():
            gaps = list(pairwise(final_times))
            # An open wait counts at its length so far. Otherwise a standstill would leave no interval at all.
            if final_times and final_times[-1] < stretch.end and not is_whole:
                gaps.append((final_times[-1], now_seconds))
            for gap_start, gap_end in gaps:
                is_inside = stretch.start <= gap_start and gap_end <= stretch.end
                is_touching = gap_start < stretch.end and gap_end > stretch.start
                if is_inside if is_whole else is_touching:
                    lengths_ms.append(round((gap_end - gap_start) * 1000))
        return lengths_ms

    def interval_figures(self, stretches: Sequence[Stretch], now_seconds: float, *, is_whole: bool) -> AttackFigures:
        """Return the percentiles of these intervals over some stretches."""
        lengths_ms = [
            interval_ms
            for stretch in stretches
            for interval_ms in self.intervals(stretch, now_seconds, is_whole=is_whole)
        ]
        return AttackFigures(
            len(lengths_ms), percentile(lengths_ms, 50), percentile(lengths_ms, 99), p95_ms=percentile(lengths_ms, 95)
        )

    def door_figures(self, door: str, stretches: Sequence[Stretch], now_seconds: float) -> AttackFigures:
        """Return the latency figures of an interface, for the honest calls that began in those stretches."""
        matching_calls = [
            honest_call
            for honest_call in self.calls
            for stretch in stretches
            if honest_call.door == door and stretch.start <= honest_call.began < stretch.end
        ]
        latencies = [honest_call.latency_ms(now_seconds) for honest_call in matching_calls]
        failed = sum(honest_call.ended is not None and not honest_call.is_answered for honest_call in matching_calls)
        return AttackFigures(
            len(matching_calls), percentile(latencies, 50), percentile(latencies, 99), failed, percentile(latencies, 95)
        )

    def cpu_seconds(self, stretch: Stretch) -> dict[str, float]:
        """Return the CPU seconds of each role in a stretch. A new process counts from its start."""
        used_seconds: dict[str, float] = {}
        samples_inside = [sample for sample in self.samples if stretch.start <= sample.at <= stretch.end]
        for sample_before, sample_after in pairwise(samples_inside):
            for role, usage in sample_after.usages.items():
                earlier_seconds = sample_before.usages[role].cpu_seconds if role in sample_before.usages else {}
                spent_seconds = sum(
                    seconds - earlier_seconds.get(pid, 0.0) for pid, seconds in usage.cpu_seconds.items()
                )
                used_seconds[role] = used_seconds.get(role, 0.0) + spent_seconds
        return used_seconds

    def others_seconds(self, stretch: Stretch) -> float:
        """Return the CPU seconds in a stretch of programs outside the network and this program."""
        machine_samples = [
            sample.machine_seconds for sample in self.samples if stretch.start <= sample.at <= stretch.end
        ]
        machine_total = machine_samples[-1] - machine_samples[0] if machine_samples else 0.0
        return max(0.0, machine_total - sum(self.cpu_seconds(stretch).values()))

    def slowest_write_ms(self, stretch: Stretch) -> int:
        """Return the longest small write to disk that overlaps a stretch, in milliseconds."""
        earlier_writes = (disk_write for disk_write in self.writes if disk_write.began < stretch.end)
        write_seconds = (
            disk_write.seconds for disk_write in earlier_writes if disk_write.began + disk_write.seconds > stretch.start
        )
        return round(1000 * max(write_seconds, default=0.0))

    def resident_at(self, sample_time: float) -> dict[str, int]:
        """Return the resident bytes of each role in the last sample at or before a time."""
        earlier_samples = [sample for sample in self.samples if sample.at <= sample_time]
        return (
            {role: usage.resident_bytes for role, usage in earlier_samples[-1].usages.items()}
            if earlier_samples
            else {}
        )

    def resident_peak(self, stretch: Stretch) -> dict[str, int]:
        """Return the largest resident bytes of each role in a stretch."""
        peak_by_role: dict[str, int] = {}
        for sample in self.samples:
            if stretch.start <= sample.at <= stretch.end:
                for role, usage in sample.usages.items():
                    peak_by_role[role] = max(peak_by_role.get(role, 0), usage.resident_bytes)
        return peak_by_role


INTERVAL_RATIO = 1.2
HOGGED_INTERVAL_RATIO = 2.0
"""Beside processes that use all processors, as its quiet stretch is."""
DOOR_RATIO = 5.0
DOOR_FLOOR_MS = 100
MEMORY_RATIO, MEMORY_FLOOR_BYTES = 1.2, 30_000_000
CUT_SECONDS = CUT_SECONDS_MAX
LOG_BYTES_PER_SECOND = 20_000
# CPU seconds per second of other programs above which a failure in time mentions them.
OTHERS_TOLD = 0.1
# A longer small write stalled all nodes, so a failure in time beside it is tried again.
DISK_STILL_MS = 100
# The limit is for attacks that stall the disk themselves, every time.
TRIES_MAX = 3


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
        cut_times = [cut_seconds for cut_seconds in self.account.cut_seconds if cut_seconds is not None]
        return max(cut_times) if cut_times and len(cut_times) == len(self.account.cut_seconds) else None


def missed_requirements(result: BarResult) -> list[str]:
    """Return a line with figures for each failed requirement."""
    return [
        *_finality_failures(result),
        *_door_failures(result),
        *_memory_failures(result),
        *_cut_failures(result),
        *_log_failures(result),
        *result.violations,
    ]


def is_to_be_tried_again(result: BarResult) -> bool:
    """Return whether only times were missed, the disk stalled, and tries are left."""
    late_failures = [*_finality_failures(result), *_door_failures(result)]
    # Validators wait for their disk before they sign, so a stalled disk delays blocks without any fault of a node.
    is_of_the_disk = result.misses == late_failures and result.slowest_write_ms >= DISK_STILL_MS
    return bool(result.misses) and is_of_the_disk and len(result.earlier_misses) + 1 < TRIES_MAX


def _finality_failures(result: BarResult) -> list[str]:
    quiet_p99_ms, attack_p99_ms = result.quiet_intervals.p99_ms, result.intervals.p99_ms
    if quiet_p99_ms is None or attack_p99_ms is None:
        return ["finality: no interval between final blocks was seen"]
    limit_ms = round(quiet_p99_ms * (HOGGED_INTERVAL_RATIO if result.hogged else INTERVAL_RATIO))
    failure = (
        f"finality: interval p99 {attack_p99_ms} ms, quiet {quiet_p99_ms} ms, bar {limit_ms} ms{_load_text(result)}"
    )
    return [failure] if attack_p99_ms > limit_ms else []


def _door_failures(result: BarResult) -> list[str]:
    failures = []
    for door, attack_latency in result.doors.items():
        percentile, quiet_ms = _judged_percentile(result, result.quiet_doors[door])
        _, late_ms = _judged_percentile(result, attack_latency)
        if late_ms is None or quiet_ms is None:
            failures.append(f"{door}: no honest client could try")
            continue
        limit_ms = max(round(quiet_ms * DOOR_RATIO), DOOR_FLOOR_MS)
        if late_ms > limit_ms:
            refused_text = (
                f", {attack_latency.failed} of {attack_latency.count} refused" if attack_latency.failed else ""
            )
            failures.append(
                f"{door}: honest {percentile} {late_ms} ms{refused_text}, quiet {quiet_ms} ms, bar "
                f"{limit_ms} ms{_load_text(result)}"
            )
    return failures


def _judged_percentile(result: BarResult, latency: AttackFigures) -> tuple[str, int | None]:
    """Return the judged percentile. Beside busy processors the slowest percent measures the system's scheduler."""
    return ("p95", latency.p95_ms) if result.hogged else ("p99", latency.p99_ms)


def _load_text(result: BarResult) -> str:
    """Return the machine's other load during the attack, which may explain a late answer."""
    load_texts = []
    if result.others_cpu_per_second >= OTHERS_TOLD:
        load_texts.append(f"other programs used {result.others_cpu_per_second:.1f} processors")
    if result.slowest_write_ms >= DISK_STILL_MS:
        load_texts.append(f"the disk stood still for {result.slowest_write_ms} ms")
    return f" ({', '.join(load_texts)})" if load_texts else ""


def _memory_failures(result: BarResult) -> list[str]:
    return [
        f"memory: {role} had {_whole_megabytes(memory_use.before)} MB before, {_whole_megabytes(memory_use.peak)} "
        f"at most, {_whole_megabytes(memory_use.after)} after, bar {_whole_megabytes(memory_use.limit)}"
        for role, memory_use in result.memory.items()
        if memory_use.after > memory_use.limit
    ]


def _cut_failures(result: BarResult) -> list[str]:
    """Return a failure unless every node disconnected a rule breaker in time."""
    if not result.rule:
        return []
    late_cuts = [
        cut_seconds for cut_seconds in result.account.cut_seconds if cut_seconds is None or cut_seconds > CUT_SECONDS
    ]
    if not late_cuts:
        return []
    open_count = sum(cut_seconds is None for cut_seconds in late_cuts)
    failure = f"{open_count} of {len(result.account.cut_seconds)} connections were never ended" if open_count else ""
    slowest_seconds = max((cut_seconds for cut_seconds in late_cuts if cut_seconds is not None), default=None)
    failure = ", ".join(
        filter(None, (failure, f"the slowest end took {slowest_seconds:.1f} s" if slowest_seconds is not None else ""))
    )
    return [f"attacker: {failure}, bar {CUT_SECONDS:.0f} s ({result.rule})"]


def _log_failures(result: BarResult) -> list[str]:
    failures = []
    if result.log_bytes_per_second > LOG_BYTES_PER_SECOND:
        log_rate, rate_limit = result.log_bytes_per_second / 1000, LOG_BYTES_PER_SECOND / 1000
        failures.append(f"log: {log_rate:.0f} kB a second, bar {rate_limit:.0f}")
    if result.tracebacks:
        failures.append(f"log: {result.tracebacks} stack traces")
    return failures


def _whole_megabytes(size_bytes: int) -> int:
    return round(size_bytes / 1e6)
