"""What a provider needs of a chain: a few ports with one live implementation (`live`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.capacity.proofs import CapacityProof, Enrolment
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.courts.cases import CourtCase, JudgeSeat
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, InputReader, UnitStatus
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.leaf_checks.leaf_checks_api import CheckStatus
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import DisputeStatus
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.bond_losses import BondLoss
from gpu_tasks.provider.chain.demand import Demand
from gpu_tasks.provider.chain.side_pay import SidePayment
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge
from runtime.blocks.evidence import DoubleBallot, DoubleHeader, DoubleProposal
from runtime.frame.call import Call
from wallet.keypair import Keypair

BidName = tuple[bytes, bytes]
"""An auction and a device."""


class ChainError(Exception):
    """The node refused something, or cannot be reached now. Trying again later is right."""


class NobodyError(ChainError):
    """The key is no stash's provider key: it is not registered, or its stash has left."""


@dataclass(frozen=True, slots=True)
class View:
    """The newest block that counts, as far as it concerns one provider.

    `newest` is how far the chain may have come meanwhile, where that is more: what is sent now comes after it.
    """

    height: int
    duties: tuple[DutyStatus, ...]
    newest: int = 0
    seats: tuple[SeatStatus, ...] = ()
    """The cases that it judges."""
    checks: tuple[CheckStatus, ...] = ()
    """The batches of which it shows leaves, or computes them."""
    disputes: tuple[DisputeStatus, ...] = ()
    """The batches that others answered differently, of which it shows its tree."""

    def __post_init__(self) -> None:
        """Nothing is newer unless somebody says so."""
        object.__setattr__(self, "newest", max(self.newest, self.height))


@dataclass(frozen=True, slots=True)
class RollCallView:
    """The newest roll call, when the next one is, and how some devices stand; None and 0 for what there is not."""

    called: RollCall | None
    planned: int
    enrolled: Mapping[bytes, Enrolment]
    """Those of the devices that are."""
    proofs: Mapping[bytes, CapacityProof]
    """What those have shown at the newest roll call."""
    rates: ProvenRates


@dataclass(frozen=True, slots=True)
class Inspection:
    """The rows that a device has shown, of which this provider has to say whether they are right."""

    device: bytes
    number: int
    challenge: ChainChallenge
    places: tuple[int, ...]
    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this provider is: its stash, the key that signs for it, the key that inputs are sealed to, the chain."""

    stash: bytes
    key: Keypair
    seal_key: SealKey
    genesis: bytes

    @classmethod
    def of(cls, stash: bytes, key: Keypair, genesis: bytes) -> Identity:
        """The seal key follows from the signing key."""
        return cls(stash, key, SealKey.of(key), genesis)


@dataclass(frozen=True, slots=True)
class SeenOffence:
    """A validator that contradicted itself, by its stash, and what proves it."""

    offender: bytes
    evidence: DoubleHeader | DoubleProposal | DoubleBallot


# Each duty names the port that it uses. Always: reads are at the newest final block, by proof; of a trusted node, at
# the best block unless they say final.
class SendPort(Protocol):
    """Take what the provider key signs."""

    async def submit(self, call: Call) -> None:
        """Hand in a call signed with the provider key; ChainError if the node does not take it."""

    async def attest(self, attestation: AnyAttestation) -> None:
        """Hand in an attestation; ChainError if the node does not take it."""


class NetworkPort(Protocol):
    """The chain's pace, the providers with their stores, and who may judge."""

    async def slot_ms(self) -> int:
        """How long a block takes."""

    async def provider(self, stash: bytes) -> Provider | None:
        """One of them, as of now."""

    async def providers(self) -> dict[bytes, Provider]:
        """All providers by stash; where their stores are, as of some blocks ago."""

    async def stash_of(self, provider_key: bytes) -> bytes | None:
        """Whose provider key this is."""

    async def judging_readers(self) -> tuple[InputReader, ...]:
        """Who is in office or elected next and may judge, and since when each had to be given what opens inputs."""


class RacePort(SendPort, NetworkPort, Protocol):
    """Units and their services."""

    async def unit(self, unit: bytes) -> UnitStatus | None:
        """A unit in the newest state that counts."""

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        """A unit in the final state; None once the chain has dropped it."""

    async def service(self, number: int) -> Service:
        """A service; ChainError if there is none."""


class CourtPort(SendPort, NetworkPort, Protocol):
    """Cases, and the seats in them."""

    async def case(self, case: bytes) -> CourtCase | None:
        """A case, while it is open."""

    async def judges(self, case: bytes) -> tuple[tuple[bytes, JudgeSeat], ...]:
        """Who sits or sat in a case, in order of benches and draws, with what each has said."""

    async def final_seats(self) -> tuple[SeatStatus, ...]:
        """The seats of this provider in the final state."""


class UnitCasePort(RacePort, CourtPort, Protocol):
    """Cases about units, and about leaves of batches."""

    async def final_dispute(self, unit: bytes) -> LeafDispute | None:
        """The dispute about a batch whose racers differ, as the final chain has it."""

    async def check_of_case(self, case: bytes) -> CheckStatus | None:
        """The check of a batch that a case before the courts is about; None for another case."""


class TaskPort(CourtPort, Protocol):
    """Tasks, and the bids for them."""

    async def tasks(self, ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        """Some tasks, by id; those that the chain does not know are left out."""

    async def bids(self, bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        """Some bids, by name; those that the chain does not know are left out."""

    async def task_of_case(self, case: bytes) -> bytes | None:
        """The task that a case before the courts is about."""


class DevicePort(CourtPort, Protocol):
    """The own devices and balances."""

    async def own_devices(self) -> list[DeviceStatus]:
        """This provider's devices."""

    async def services(self) -> dict[int, Service]:
        """All services by number."""

    async def key_balance(self) -> int:
        """Return the provider key's balance in grains."""

    async def spendable(self) -> int:
        """Grains that the own stash can lock."""

    async def bond_losses(self, since: int) -> list[BondLoss]:
        """Return the bond losses of this provider's devices after a block; ChainError."""

    async def demand(self, services: Collection[int]) -> Demand:
        """What this provider can be drawn for in some services, in the final state; ChainError."""


class BidPort(TaskPort, DevicePort, Protocol):
    """Auctions, and the devices and grains to bid with."""

    async def auctions(self) -> dict[bytes, Task]:
        """The tasks that take bids, by id."""


class RollCallPort(SendPort, Protocol):
    """Roll calls."""

    async def roll_call(self, devices: Sequence[bytes]) -> RollCallView:
        """The newest roll call and some devices at it, at the best block: its commits count from the fifth on.

        A node that lies about it costs work in vain, or what keeping a commit to itself costs anyway.
        """

    async def inspections(self) -> tuple[Inspection, ...]:
        """Rows that this provider was drawn to look at, and has not objected to; in the final state."""


class SidePayPort(Protocol):
    """Payments for judging, auditing and standing by."""

    async def side_payments(
        self, cases: Sequence[bytes], tasks: Sequence[bytes], since: int
    ) -> dict[bytes, SidePayment]:
        """What cases that this provider judged, and tasks that it stood by for, paid it as that ended, by their ids.

        Both ended after the block `since`; ChainError. What is not final yet, or not to be found, is left out.
        """

    async def audited(self) -> set[bytes]:
        """The batches whose check is not over, and holds something of this provider's as their auditor; ChainError."""

    async def audit_payments(self, units: Collection[bytes], since: int) -> dict[bytes, SidePayment | None]:
        """What the checks of batches that this provider audited paid it as they ended; ChainError.

        None while one goes on; all ended after the block `since`, and what is not to be found is left out.
        """


class OffencePort(SendPort, Protocol):
    """Offences that the node saw."""

    async def offences(self) -> list[SeenOffence]:
        """What the node saw of validators that proposed twice in one slot; nothing that proves no offence."""

    async def is_tombstoned(self, stash: bytes) -> bool:
        """Whether a validator was already punished for an offence."""


class ChainPort(UnitCasePort, BidPort, RollCallPort, SidePayPort, OffencePort, Protocol):
    """All that a daemon uses of a chain."""

    @property
    def is_development(self) -> bool:
        """Whether the chain is one for development, where stores may be on the own machine."""

    def views(self) -> AsyncIterator[View]:
        """The newest view, and again whenever a block comes. Does not end; reconnects by itself, to the same chain."""
