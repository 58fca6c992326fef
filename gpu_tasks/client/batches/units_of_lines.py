"""Which requests go into which unit: as few units as there can be, and these as alike in work as there can be.

A provider locks the price of a unit as its collateral, so a unit whose price is above what devices have free finds
nobody. Always: the order of the file is kept, no unit exceeds its room, and the same requests and room split alike.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gpu_tasks.batches.outcomes import FRAME_BYTES
from gpu_tasks.batches.requests import BATCH_BYTES_MAX, PRICED, REQUEST_BYTES_MAX, REQUESTS_MAX, price_of, work_of
from gpu_tasks.client.batches.lines import BatchFileError
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, answers_bytes
from gpu_tasks.workloads.form import WorkloadForm

LIST_BYTES = 4
"""What stands before a list of requests, and before each of them, at most."""


@dataclass(frozen=True, slots=True)
class LineLoad:
    """What one request weighs."""

    number: int
    """Its line in the file."""
    request_bytes: int
    tokens_in: int
    tokens_out: int
    """At most."""
    output_bytes: int
    """At most."""


@dataclass(frozen=True, slots=True)
class UnitRoom:
    """What one unit may hold. Prices are grains."""

    rate: int
    """The most that is paid for a thousand output tokens."""
    input_share: int
    """Of the service: what an input token counts, in millionths of an output token."""
    bond_free: int
    """What a device has free for a collateral, usually: the median of those of the service."""
    requests_max: int = REQUESTS_MAX
    bytes_max: int = BATCH_BYTES_MAX
    """Of all requests, encoded."""
    answers_max: int = ANSWERS_BYTES_MAX
    """Bytes of all answers together, encoded."""

    @property
    def work_max(self) -> int:
        """The most work whose price the bond covers."""
        return self.bond_free * PRICED // self.rate


@dataclass(frozen=True, slots=True)
class UnitLines:
    """The requests of one unit: `count` of them from the one at place `first`, from 0 and without refused lines."""

    first: int
    count: int


def load_of(number: int, request: bytes, form: WorkloadForm) -> LineLoad:
    """What a request weighs."""
    return LineLoad(number, len(request), form.cost_in(request), form.cost_asked(request), form.output_bytes(request))


def split(loads: Sequence[LineLoad], room: UnitRoom) -> list[UnitLines]:
    """The units of a file, in order; BatchFileError names the line that alone exceeds a unit."""
    for load in loads:
        _check_alone(load, room)
    sums = _Sums.of(loads, room)
    fewest = len(sums.cut(room.work_max))
    low, high = 0, room.work_max
    while low < high:
        middle = (low + high) // 2
        if sums.fits(middle, fewest):
            high = middle
        else:
            low = middle + 1
    return sums.cut(high)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What all requests before a place weigh; so a unit's end is found without adding."""

    room: UnitRoom
    work: Sequence[int]
    encoded: Sequence[int]
    answers: Sequence[int]

    @classmethod
    def of(cls, loads: Sequence[LineLoad], room: UnitRoom) -> "_Sums":
        return cls(
            room,
            list(accumulate((_work(load, room) for load in loads), initial=0)),
            list(accumulate((load.request_bytes + LIST_BYTES for load in loads), initial=0)),
            list(accumulate((load.output_bytes + FRAME_BYTES for load in loads), initial=0)),
        )

    def cut(self, work_max: int) -> list[UnitLines]:
        """Each unit as full as it may be with so much work at most."""
        units, first, count = [], 0, len(self.work) - 1
        while first < count:
            end = self._end(first, work_max)
            assert end > first, "each request fits a unit of its own"
            units.append(UnitLines(first, end - first))
            first = end
        return units

    def fits(self, work_max: int, units: int) -> bool:
        """Whether so many units are enough if none has more work."""
        first, count = 0, len(self.work) - 1
        for _ in range(units):
            if first == count:
                break
            end = self._end(first, work_max)
            if end == first:
                return False
            first = end
        return first == count

    def _end(self, first: int, work_max: int) -> int:
        room = self.room
        return min(
            first + room.requests_max,
            bisect_right(self.work, self.work[first] + work_max) - 1,
            bisect_right(self.encoded, self.encoded[first] + room.bytes_max - LIST_BYTES) - 1,
            bisect_right(self.answers, self.answers[first] + room.answers_max - FRAME_BYTES) - 1,
            len(self.work) - 1,
        )


def _work(load: LineLoad, room: UnitRoom) -> int:
    return work_of(room.input_share, load.tokens_in, load.tokens_out)


def _check_alone(load: LineLoad, room: UnitRoom) -> None:
    assert load.request_bytes <= REQUEST_BYTES_MAX, "reading refuses such a line"
    where = f"line {load.number} alone"
    if _work(load, room) > room.work_max:
        price = price_of(room.rate, _work(load, room))
        raise BatchFileError(
            f"{where} costs up to {price:,} grains, and a device of the service usually has {room.bond_free:,} free to "
            "answer for it: ask for fewer tokens, or pay less for each"
        )
    if load.request_bytes + 2 * LIST_BYTES > room.bytes_max:
        raise BatchFileError(
            f"{where} has {load.request_bytes:,} bytes, and a unit holds {room.bytes_max:,}: shorten its prompt"
        )
    if answers_bytes([load.output_bytes]) > room.answers_max:
        raise BatchFileError(
            f"{where} asks for up to {load.output_bytes:,} bytes, and a unit's answers have {room.answers_max:,}: "
            "ask for less"
        )
