"""Replicas as pure functions: the draw, the commitments, and the agreement of a majority.

Invariants: a device is offered before the beacon of its draw is known. A place belongs to an owner, drawn by the sum of
its devices' bonds. A commitment binds task, place and provider, so a copied one cannot be opened. An agreed result is
that of more than half of all places, silent ones included.
"""

from collections.abc import Iterable, Mapping

from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task, TaskResult
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U64, codec, struct
from runtime.encoding.types import AccountId, Hash

ReplicaFinding = tuple[bytes, int]
"""The answer that replicas must agree on: the output's root and the metric, which for a program is its exit code."""


@struct
class _ResultBody:
    task: Hash
    place: U8
    provider: AccountId
    root: Hash
    blob: Hash
    metric: U64
    salt: Hash


_RESULT_BODY = codec(_ResultBody)


def replica_commitment(
    genesis_hash: bytes, task_id: bytes, place: int, provider: bytes, result: TaskResult, salt: bytes
) -> bytes:
    """Return the 32 bytes that a replica commits. `salt` is its own random value."""
    body = _ResultBody(task_id, place, provider, result.root, result.blob, result.metric, salt)
    return blake2_256(domain(b"replica", genesis_hash, _RESULT_BODY.encode(body)))


def drawn(offers: Mapping[bytes, TaskBid], seed: bytes, place_count: int) -> list[bytes]:
    """Return the devices that a seed draws, one of each owner, in the order of their places.

    There are fewer than `count` if too few owners offer devices.
    """
    # Sorted, so that the draw does not depend on the order of keys in the storage.
    entrants = [(device_id, offer.bond) for device_id, offer in sorted(offers.items())]
    drawn_devices: dict[bytes, bytes] = {}
    for position in lottery(seed, b"ogpu/replicas", entrants, len(entrants)):
        device_id = entrants[position][0]
        # The first device of an owner comes as early as one device with the sum of its bonds would.
        drawn_devices.setdefault(offers[device_id].provider, device_id)
    return list(drawn_devices.values())[:place_count]


def agreed(findings: Iterable[ReplicaFinding], place_count: int) -> tuple[ReplicaFinding, int] | None:
    """Return the finding of more than half of all places with its votes, or None."""
    counts: dict[ReplicaFinding, int] = {}
    for finding in findings:
        counts[finding] = counts.get(finding, 0) + 1
    most_common = max(counts.items(), key=lambda entry: entry[1], default=None)
    # A majority of all places: a coalition gains nothing by keeping others silent.
    return most_common if most_common is not None and 2 * most_common[1] > place_count else None


def findings_of(task: Task) -> dict[int, ReplicaFinding]:
    """Return the opened results by place."""
    results = ((place, slot.result) for place, slot in enumerate(task.slots))
    return {place: (result.root, result.metric) for place, result in results if result is not None}
