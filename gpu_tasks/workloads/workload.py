"""A workload as the market's daemons use it: bytes in, bytes out, and a check of the output.

Invariant: `run` is a function of the request's bytes, the same on every conforming machine, and `verify` accepts
exactly its result. All methods raise `DecodeError` for an invalid request; checkers then answer that no right result
exists.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from runtime.encoding.codec import DecodeError

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class OutputCheck:
    """The outcome of a check: the amount of recomputed work, and the first wrong place."""

    valid: bool
    recomputed: int
    first_wrong: int | None


@dataclass(frozen=True)
class FingerprintedCheck:
    """The outcome of a check, and the fingerprint of a right output's computation."""

    output_check: OutputCheck
    fingerprint: bytes | None


class NonConformingBackendError(Exception):
    """A backend does not give the published results, so it must not do exact tasks."""


class Workload(Protocol):
    """One kind of exact task, ready to run on one backend."""

    workload_id: bytes
    """32 bytes that identify the computation with all its rules."""
    model_id: bytes
    """32 bytes: the hash of the model file."""

    def use_room(self, room_bytes: int) -> None:
        """Keep the memory of requests side by side within `room_bytes`. This default has nothing to limit."""
        return

    def run(self, encoded_request: bytes) -> bytes:
        """Return the output of the task."""
        ...

    def run_many(self, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes | None]]:
        """Yield each request's place and output in the order of completion, with None for an invalid request.

        This default runs them one by one. A workload that gains from several at once replaces it.
        """
        return ((place, none_for_none(self.run, request)) for place, request in enumerate(requests))

    def verify(self, encoded_request: bytes, encoded_output: bytes) -> OutputCheck:
        """Check that `encoded_output` is the result of `run`, at a lower cost than running where possible."""
        ...

    def fingerprint(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> bytes:
        """Return the fingerprint of a right output: 16 bytes that only its computation gives (`fingerprints.py`).

        `seed` has 32 bytes.
        """
        ...

    def check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes) -> FingerprintedCheck:
        """Check an output as `verify` does, and fingerprint its computation if it is right.

        This default computes twice. A workload that can do both in one pass replaces it.
        """
        output_check = self.verify(encoded_request, encoded_output)
        found = self.fingerprint(encoded_request, encoded_output, seed) if output_check.valid else None
        return FingerprintedCheck(output_check, found)

    def conformance(self) -> bytes:
        """Return the hash of fixed work, to compare machines. Raise NonConformingBackendError if it is wrong."""
        ...


def none_for_none(make_or_none: Callable[[bytes], _Made], encoded_request: bytes) -> _Made | None:
    """Return `make(request)`, or None for bytes that are no request."""
    try:
        return make_or_none(encoded_request)
    # One invalid request of a batch must not stop the others.
    except DecodeError:
        return None
