"""What was seen, with times: finals, honest calls, processes; and the figures of a stretch of time.

Pure: times are arguments, in seconds of the monotonic clock. What always holds: what was still waiting when a stretch
ended counts with the time it had waited by then or, if known, until it came, so that a standstill never looks quiet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

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
