"""The output of a unit: an outcome for each of its requests, and the root that names them on the chain.

The outcomes are in one sealed blob. The chain has the root of a tree over them and the tokens that it commits to. The
salt of the sealed input is in every leaf and keeps short outputs from being guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.leaves import leaves_of
from gpu_tasks.batches.outcomes import FRAME_BYTES, BatchOutcome, decode_outcomes
from gpu_tasks.batches.requests import decode_requests
from gpu_tasks.batches.sum_tree import Totals, batch_root, totals_of
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.data.unit_input import REQUEST_BYTES_MAX, UnitInput
from runtime.encoding.codec import DecodeError

ANSWERS_BYTES_MAX = CONTENT_BYTES_MAX
"""The limit of all outcomes of a unit, encoded, because they are in one blob."""


@dataclass(frozen=True, slots=True)
class UnitOutput:
    """The outcomes of a unit, with their totals for the chain."""

    outcomes: tuple[BatchOutcome, ...]
    totals: Totals

    @property
    def root(self) -> bytes:
        """The name of the result: the same for everyone who computed the same outcomes for this unit."""
        return batch_root(self.totals)


def requests_of(unit_input: UnitInput, count: int) -> tuple[bytes, ...]:
    """Return the requests of a unit with `count` of them on the chain.

    Raise DecodeError if the input differs.
    """
    # A single request is not encoded as a batch.
    if count == 1:
        if len(unit_input.request) > REQUEST_BYTES_MAX:
            raise DecodeError("a request with too many bytes")
        return (unit_input.request,)
    requests = decode_requests(unit_input.request)
    if len(requests) != count:
        raise DecodeError(f"the input has {len(requests)} requests, the unit {count}")
    return requests


def answers_bytes(outputs: Iterable[int]) -> int:
    """Return the greatest length of encoded outcomes with outputs of at most these lengths."""
    return FRAME_BYTES + sum(answer + FRAME_BYTES for answer in outputs)


def output_of(genesis_hash: bytes, unit: bytes, salt: bytes, outcomes: Sequence[BatchOutcome]) -> UnitOutput:
    """Return the outcomes of all requests of a unit, in their order, under their root."""
    return UnitOutput(tuple(outcomes), totals_of(leaves_of(genesis_hash, unit, salt, outcomes)))


def read_output(genesis_hash: bytes, unit: bytes, salt: bytes, content: bytes, count: int) -> UnitOutput | None:
    """Return the output in the content of a blob, or None if it is no output of `count` requests."""
    try:
        outcomes = decode_outcomes(content)
    except DecodeError:
        return None
    return output_of(genesis_hash, unit, salt, outcomes) if len(outcomes) == count else None
