"""What a workload is to the market's daemons: bytes in, bytes out, and a check of the bytes.

Always: `run` is a function of the request's bytes, the same on every conforming machine, and
`verify` accepts exactly its result. All raise `DecodeError` on a request that is not valid,
for which judges say that there is no right answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from runtime.encoding.codec import DecodeError

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class OutputCheck:
    """The outcome of a check: what was recomputed, and the first place that is wrong."""

    valid: bool
    recomputed: int
    first_wrong: int | None


class NonConformingBackendError(Exception):
    """A backend does not give the published results, so it must not do exact tasks."""


class Workload(Protocol):
    """One kind of exact task, ready to run on one backend."""

    workload_id: bytes
    """32 bytes: which computation this is, rules and all."""
    model_id: bytes
    """32 bytes: the hash of the model file."""

    def run(self, request: bytes) -> bytes:
        """The output of the task."""
        ...

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """What `run` gives for each request, with its place, as they are done; None for one that is not valid.

        One by one, unless a workload gains by several at once.
        """
        return ((place, none_for_none(self.run, request)) for place, request in enumerate(requests))

    def verify(self, request: bytes, output: bytes) -> OutputCheck:
        """Whether `output` is what `run` gives; cheaper than running where possible."""
        ...

    def trace(self, request: bytes, output: bytes, place: bytes) -> bytes:
        """32 bytes: the hash of the integers of the computation at one place, which `place` (32 bytes) names.

        `output` is the right one. Who computed nothing cannot know it.
        """
        ...

    def conformance(self) -> bytes:
        """Hash of fixed work, to compare machines; NonConformingBackendError if it is off."""
        ...


def none_for_none(make: Callable[[bytes], _Made], request: bytes) -> _Made | None:
    """What is made of a request; None for bytes that are none."""
    try:
        return make(request)
    except DecodeError:
        return None
