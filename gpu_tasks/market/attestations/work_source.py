"""The registry of work sources: the interface of markets to attestations, to the node's pool and to its metrics.

A work source is a pallet that lists its attestation's variant in `variants` and has the members below. Membership in
the chain's list of pallets is its registration, so general code names no market.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.attestations.kinds import AnyAttestation
from runtime.encoding.types import Weight
from runtime.frame.pallet import Pallet, StorageValue


@dataclass(frozen=True, slots=True)
class OpenWork:
    """A market's count of open work, and its presentation in a node's metrics."""

    count: StorageValue[int]
    figure: str
    """The metric's name for Prometheus, such as `ogpu_open_units`."""
    text: str


@runtime_checkable
class WorkSource(Protocol):
    """A market whose work is attested. Each method takes only attestations of the market's own variant."""

    variants: ClassVar[tuple[type[Any], ...]]
    open_work: ClassVar[OpenWork]

    def attestation_problem(self, signed: Any) -> str:
        """Return the reason why the attestation may not be attached now, or "" if it may.

        Implementations make cheap checks before they verify the signature.
        """

    def lasting_problem(self, signed: Any) -> str:
        """Return the reason why this branch will never take the attestation, or "" if a pool should keep it.

        The reason is `BAD_SIGNATURE` for a forgery, for which the pool blames the sending peer. Implementations check
        the keys and devices of the work before the signature. Otherwise a statement by any other provider's key could
        occupy the place of the right one in the pool.
        """

    def is_overtaken(self, signed: Any) -> bool:
        """Return True if the state is past the statement, for any signer. The pool then drops it."""

    def attaching_weight(self, signed: Any) -> Weight:
        """Return the weight of attaching an admissible attestation."""

    def attach_work(self, signed: Any) -> None:
        """Record the statement of an admissible attestation."""


def source_of(attestation: AnyAttestation, pallets: Iterable[Pallet]) -> WorkSource:
    """Return the market of an attestation, among the pallets of an execution."""
    work_source = next((pallet for pallet in pallets if type(attestation) in pallet.variants), None)
    assert isinstance(work_source, WorkSource), "a pallet that lists an attestation kind is a work source"
    return work_source


def open_work(pallets: Iterable[type[Pallet]]) -> list[OpenWork]:
    """Return the counts of all markets of a chain, in the order of its pallets."""
    listed = (getattr(pallet, "open_work", None) for pallet in pallets)
    return [open_count for open_count in listed if isinstance(open_count, OpenWork)]
