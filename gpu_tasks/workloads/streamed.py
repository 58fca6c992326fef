"""A workload whose answers are streamed: requests begin and end at any time, and each step yields new tokens.

Invariant: the tokens of a lane are those of `Workload.run` for its request, bit for bit, for any content of the other
lanes.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol, cast

from gpu_tasks.workloads.workload import Workload


class LaneTokens(NamedTuple):
    """The progress of a lane in one step."""

    lane: int
    tokens: tuple[int, ...]
    """New tokens; none after a part of a prompt."""
    finish: int | None
    """The reason for the end of the answer, as in its output. Its lane is free then. None: the answer goes on."""


class Lanes(Protocol):
    """A fixed number of requests side by side, each in a lane of its own."""

    def begin(self, encoded_request: bytes) -> int:
        """Give a request a free lane and return its number. Raise DecodeError for an invalid request.

        The caller keeps to the number of lanes.
        """
        ...

    def drop(self, lane: int) -> None:
        """Free the lane of an unfinished request."""
        ...

    def step(self, paused: Collection[int] = ()) -> list[LaneTokens]:
        """Compute a bounded piece of work, and return the progress of each lane in it.

        Lanes in `paused` wait. If any other lane has a request, at least one of them advances.
        """
        ...


class StreamedWorkload(Workload, Protocol):
    """A workload that streams its answers, ready to run on one backend."""

    def live(self, places: int) -> Lanes:
        """Return `places` free lanes, each with room for the longest request. Raise MemoryError if they do not fit."""
        ...


def streamed(workload: Workload) -> StreamedWorkload:
    """Return the workload with its lanes. Raise TypeError if it does not stream."""
    if not hasattr(workload, "live"):
        raise TypeError("the workload does not stream its answers")
    return cast("StreamedWorkload", workload)
