"""Replicas as pure functions: who is drawn, what each is bound to, what most of them agree on.

Always: whoever offers a device does so before the beacon that draws is known; a place is an owner's, drawn by the sum
of the bonds of its devices; a commitment is bound to task, place and provider, so that who copies one cannot open it;
what is agreed on is what more than half of all places say, those who are silent counted.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task, TaskResult, panel
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U64, codec, struct
from runtime.encoding.types import AccountId, Hash

CONVICTING_SPARE = 1
"""Of a jury, so many may say something else, or nothing, and what the others say still convicts."""

ReplicaFinding = tuple[bytes, int]
"""What replicas have to agree on: the root of the output, and the metric, of a program the code that it ended with."""


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
    genesis: bytes, task: bytes, place: int, provider: bytes, result: TaskResult, salt: bytes
) -> bytes:
    """The 32 bytes that a replica binds itself to; `salt` is its own chance."""
    body = _ResultBody(task, place, provider, result.root, result.blob, result.metric, salt)
    return blake2_256(domain(b"replica", genesis, _RESULT_BODY.encode(body)))


def drawn(offered: Mapping[bytes, TaskBid], seed: bytes, count: int) -> list[bytes]:
    """The devices that a seed draws, one of each owner, in the order of their places; fewer if there are too few."""
    entrants = [(device, bid.bond) for device, bid in sorted(offered.items())]
    chosen: dict[bytes, bytes] = {}
    for position in lottery(seed, b"ogpu/replicas", entrants, len(entrants)):
        device = entrants[position][0]
        chosen.setdefault(offered[device].provider, device)
    return list(chosen.values())[:count]


def agreed(findings: Iterable[ReplicaFinding], places: int) -> tuple[ReplicaFinding, int] | None:
    """What more than half of so many places say, and how many do; None: nothing."""
    counts: dict[ReplicaFinding, int] = {}
    for finding in findings:
        counts[finding] = counts.get(finding, 0) + 1
    most = max(counts.items(), key=lambda entry: entry[1], default=None)
    return most if most is not None and 2 * most[1] > places else None


def findings_of(task: Task, places: Sequence[int]) -> dict[int, ReplicaFinding]:
    """What was opened at these places."""
    results = ((place, task.slots[place].result) for place in places)
    return {place: (result.root, result.metric) for place, result in results if result is not None}


def finding_of_panel(task: Task) -> tuple[ReplicaFinding, int] | None:
    """What those who work now agree on, and how many of them."""
    places = panel(task)
    return agreed(findings_of(task, places).values(), len(places))
