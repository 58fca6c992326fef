"""The registry of work sources: the markets, as attestations, the node's pool and its metrics know them.

A work source is a pallet that lists the variant of its attestation in `variants` and has these members. It registers by
being in the chain's list, so nobody who deals with all markets names one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.attestations.kinds import AnyAttestation
from runtime.encoding.types import Weight
from runtime.frame.pallet import Pallet, StorageValue


@dataclass(frozen=True, slots=True)
class OpenWork:
    """A market's count of open work, and how a node's metrics show it."""

    count: StorageValue[int]
    figure: str
    """Its name for Prometheus, such as `ogpu_open_units`."""
    text: str


@runtime_checkable
class WorkSource(Protocol):
    """A market whose work is attested. Each method takes attestations of its own variant alone."""

    variants: ClassVar[tuple[type[Any], ...]]
    open_work: ClassVar[OpenWork]

    def attestation_problem(self, signed: Any) -> str:
        """Why it may not be attached now; empty if it may. Cheap checks come before the signature."""

    def lasting_problem(self, signed: Any) -> str:
        """Why a pool should not keep it, since this branch will never take it; empty if it may be attached soon.

        `BAD_SIGNATURE` for a forgery: whoever passed it on is blamed. The keys and devices of the work are looked at
        before the signature: any provider's key could else take another's place in the pool and keep it out.
        """

    def is_overtaken(self, signed: Any) -> bool:
        """Whether the state is past what it states, whoever signed: the pool forgets it then."""

    def attaching_weight(self, signed: Any) -> Weight:
        """The weight of attaching one that is admissible."""

    def attach_work(self, signed: Any) -> None:
        """Write down what an admissible one states."""


def source_of(signed: AnyAttestation, pallets: Iterable[Pallet]) -> WorkSource:
    """The market of an attestation, among the pallets of an execution."""
    found = next((pallet for pallet in pallets if type(signed) in pallet.variants), None)
    assert isinstance(found, WorkSource), "a pallet that lists an attestation can say what it means"
    return found


def open_work(pallets: Iterable[type[Pallet]]) -> list[OpenWork]:
    """The counts of all markets of a chain, in the order of its list."""
    listed = (getattr(pallet, "open_work", None) for pallet in pallets)
    return [each for each in listed if isinstance(each, OpenWork)]
