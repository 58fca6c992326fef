"""Which of a provider's registered devices may work here, looked at before a daemon takes work.

A daemon that cannot open inputs would give every race back, and two such providers make the market take a unit's input
for bad, at the customer's cost. A device that is not on this machine, or that promises work which this daemon does not
have, would be computed by something else than was promised, or miss every race at 1 % of its collateral: it is paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.provider.chain.port import Identity, NetworkPort
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError, Workloads
from gpu_tasks.workloads.form import WorkloadForm


class StandingError(Exception):
    """The provider as registered is not the one that runs; the text says what to change."""


@dataclass(slots=True)
class DeviceStanding:
    """The devices that work here, with their hardware and what they promise; and why others do not."""

    served: dict[bytes, Hardware] = field(default_factory=dict)
    promised: dict[bytes, list[WorkloadForm]] = field(default_factory=dict)
    unserved: dict[bytes, str] = field(default_factory=dict)


async def check_standing(chain: NetworkPort, identity: Identity) -> None:
    """StandingError if no provider or another seal key is registered; ChainError if the chain cannot be asked."""
    provider = await chain.provider(identity.stash)
    if provider is None:
        raise StandingError("the stash is not registered as provider; run `ogpu-provider register`")
    if provider.seal_key != identity.seal_key.public:
        raise StandingError(
            "inputs are sealed to another key than this one's; run `ogpu-provider register` to change it"
        )


def standing_of(
    devices: Sequence[DeviceStatus],
    hardware: Iterable[Hardware],
    terms: Mapping[int, ServiceTerms],
    workloads: Workloads,
) -> DeviceStanding:
    """What stands here; `terms` are those of all services, by number.

    An offer outlives its service, which its owner may close, and promises nothing then.
    """
    standing = DeviceStanding()
    found = on_this_machine(devices, hardware)
    for status in devices:
        if status.id not in found:
            standing.unserved[status.id] = (
                f"its hardware 0x{status.device.uuid_hash.hex()[:8]}.. ({status.device.kind.name.lower()}) is not on "
                "this machine, left out by --device, or a GPU without PyTorch (see `ogpu-provider doctor`)"
            )
            continue
        try:
            promised = [_promise(number, terms[number], workloads) for number, _ in status.offers if number in terms]
        except UnknownWorkloadError as error:
            standing.unserved[status.id] = str(error)
            continue
        standing.served[status.id] = found[status.id]
        standing.promised[status.id] = promised
    return standing


def on_this_machine(devices: Sequence[DeviceStatus], hardware: Iterable[Hardware]) -> dict[bytes, Hardware]:
    """The registered devices that are here, by their hardware's identifier.

    A CPU has no identifier of its own, only a random one that the base path keeps: a provider's only CPU device, such
    as the genesis of a development chain gives, is this machine's CPU even where that differs.
    """
    known = {piece.uuid_hash: piece for piece in hardware}
    found = {status.id: known[status.device.uuid_hash] for status in devices if status.device.uuid_hash in known}
    processors = [status for status in devices if status.device.kind is DeviceClass.CPU]
    processor = next((piece for piece in known.values() if piece.kind is DeviceClass.CPU), None)
    if len(processors) == 1 and processor is not None:
        found.setdefault(processors[0].id, processor)
    return found


def _promise(number: int, terms: ServiceTerms, workloads: Workloads) -> WorkloadForm:
    try:
        return workloads.of(terms)
    except UnknownWorkloadError as error:
        raise UnknownWorkloadError(
            f"it offers service {number}, but {error}: `ogpu-provider withdraw-offer`, or install a release with it"
        ) from None
