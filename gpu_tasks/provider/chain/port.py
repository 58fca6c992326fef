"""The interfaces of a provider to a chain: a few ports with one implementation (`live`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.capacity.proofs import OpenProof, ProvenRate
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, DutyStatus, InputReader, UnitStatus
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.sessions.records import PeriodClaim
from gpu_tasks.market.sessions.sessions_api import DevicePlaces, SessionStatus
from gpu_tasks.market.training.bids import TaskBid
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.bond_losses import BondLoss
from gpu_tasks.provider.chain.claim_money import ClaimMoneyRead
from gpu_tasks.provider.chain.demand import Demand
from gpu_tasks.provider.chain.side_pay import SidePayment
from runtime.blocks.evidence import DoubleBallot, DoubleHeader, DoubleProposal
from runtime.frame.call import Call
from wallet.errors import CodedError
from wallet.keypair import Keypair

BidName = tuple[bytes, bytes]
"""An auction and a device."""


class ChainError(CodedError):
    """The node refused something or is unreachable. The caller tries again later."""


class NobodyError(ChainError):
    """The key is no stash's provider key: it is not registered, or its stash has left."""


@dataclass(frozen=True, slots=True)
class View:
    """The newest block in use, final or of a trusted node, as far as it concerns one provider.

    `newest` is the height that the chain may have reached meanwhile, if higher. A message sent at this moment arrives
    after it.
    """

    height: int
    duties: tuple[DutyStatus, ...]
    newest: int = 0
    claims: tuple[ClaimStatus, ...] = ()
    """The claims in which it must act, as checker or provider, or may appeal."""
    ballots: tuple[BallotStatus, ...] = ()
    """Its ballots in open disputes."""

    @property
    def is_owing(self) -> bool:
        """True if it has work that others wait for, beside tasks."""
        return any((self.duties, self.claims, self.ballots))

    def __post_init__(self) -> None:
        """Set `newest` to at least `height`."""
        object.__setattr__(self, "newest", max(self.newest, self.height))


@dataclass(frozen=True, slots=True)
class RollCallView:
    """The newest roll call, the block of the next one, and the state of some devices. Missing values are None or 0."""

    called: RollCall | None
    planned: int
    proofs: Mapping[bytes, ProvenRate]
    """The newest proof of each device that has one, of this roll call or of an earlier one."""
    open_proofs: Mapping[bytes, OpenProof]
    """The proofs of the newest roll call whose claims are open, by device."""
    rates: ProvenRates


@dataclass(frozen=True, slots=True)
class Identity:
    """A provider's identity: its stash, its signing key, the key that inputs are sealed to, and its chain."""

    stash: bytes
    key: Keypair
    seal_key: SealKey
    genesis: bytes

    @classmethod
    def of(cls, stash: bytes, key: Keypair, genesis_hash: bytes) -> Identity:
        """Return an identity. The seal key is derived from the signing key."""
        return cls(stash, key, SealKey.of(key), genesis_hash)


@dataclass(frozen=True, slots=True)
class SeenOffence:
    """A validator that signed conflicting messages, by its stash, and the evidence."""

    offender: bytes
    evidence: DoubleHeader | DoubleProposal | DoubleBallot


# Each duty names its port. Invariant: reads are at the newest final block, with proof; from a trusted node, at the best
# block unless the method says "final".
class SendPort(Protocol):
    """The sending of calls and attestations, signed with the provider key."""

    async def submit(self, call: Call) -> None:
        """Send a call signed with the provider key. Raise ChainError if the node refuses it."""

    async def attest(self, attestation: AnyAttestation) -> None:
        """Send an attestation. Raise ChainError if the node refuses it."""


class NetworkPort(Protocol):
    """The chain's pace, the providers with their stores, and the possible checkers."""

    async def slot_ms(self) -> int:
        """Return the milliseconds of a slot."""

    async def provider(self, stash: bytes) -> Provider | None:
        """Return a provider's present record."""

    async def providers(self) -> dict[bytes, Provider]:
        """Return all providers by stash. The addresses of their stores may be some blocks old."""

    async def stash_of(self, provider_key: bytes) -> bytes | None:
        """Return the stash of a provider key."""

    async def checking_readers(self) -> tuple[InputReader, ...]:
        """Return the possible checkers, active or elected next.

        Each comes with the block from which inputs must be sealed to it.
        """


class RacePort(SendPort, NetworkPort, Protocol):
    """Units and their services."""

    async def unit(self, unit: bytes) -> UnitStatus | None:
        """Return a unit in the newest state in use: final, or a trusted node's best."""

    async def final_unit(self, unit: bytes) -> UnitStatus | None:
        """Return a unit in the final state; None once the chain has dropped it."""

    async def service(self, number: int) -> Service:
        """Return a service. Raise ChainError if there is none."""


class ClaimPort(RacePort, Protocol):
    """Claims and disputes, in the newest state in use or in the final one. Every method may raise ChainError."""

    async def claim(self, claim: bytes, *, final: bool = False) -> ResultClaim | None:
        """Return an open claim."""

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        """Return an open dispute about an item, differing results or an input."""

    async def final_ballots(self) -> tuple[BallotStatus, ...]:
        """Return this provider's ballots in open disputes, in the final state."""


class TaskPort(ClaimPort, Protocol):
    """Tasks, the bids for them, and the claims of their results."""

    async def tasks(self, ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        """Return some tasks by id. Unknown ones are left out."""

    async def bids(self, bids: Sequence[BidName], *, final: bool = False) -> dict[BidName, TaskBid]:
        """Return some bids by name. Unknown ones are left out."""

    async def task_of_claim(self, claim: bytes) -> bytes | None:
        """Return the task of an open claim, or None for a claim of another market."""


class DevicePort(RacePort, Protocol):
    """This provider's devices and balances."""

    async def own_devices(self) -> list[DeviceStatus]:
        """Return this provider's devices."""

    async def services(self) -> dict[int, Service]:
        """Return all services by number."""

    async def key_balance(self) -> int:
        """Return the provider key's balance in grains."""

    async def spendable(self) -> int:
        """Return the grains that its stash can lock."""

    async def bond_losses(self, since: int) -> list[BondLoss]:
        """Return the bond losses of this provider's devices after a block. Raise ChainError on failure."""

    async def demand(self, services: Collection[int]) -> Demand:
        """Return the demand for this provider in some services, in the final state. Raise ChainError on failure."""


class BidPort(TaskPort, DevicePort, Protocol):
    """Auctions, and the devices and grains to bid with."""

    async def auctions(self) -> dict[bytes, Task]:
        """Return the tasks that accept bids, by id."""


class RollCallPort(ClaimPort, DevicePort, Protocol):
    """Roll calls, and the claims of their proofs."""

    async def roll_call(self, devices: Sequence[bytes]) -> RollCallView:
        """Return the newest roll call and some devices at it, at the best block: proofs count from its fifth block on.

        A dishonest node can only waste work, or suppress a proof, which it could do anyway.
        """

    async def final_roll_call(self) -> RollCall | None:
        """Return the newest roll call of the final chain."""

    async def proof_hold(self) -> int:
        """Return the grains of the stash that a proof holds."""

    async def open_proof(self, claim: bytes, *, final: bool = False) -> OpenProof | None:
        """Return the proof of an open claim, or None for a claim of another market."""


class SessionPort(ClaimPort, DevicePort, Protocol):
    """Sessions, and the claims of their periods."""

    async def session(self, session: bytes, *, final: bool = False) -> SessionStatus | None:
        """Return a session until it ends."""

    async def sessions_of_device(self, device: bytes, *, final: bool = False) -> tuple[SessionStatus, ...]:
        """Return all sessions that a device serves or spares."""

    async def period_claim(self, claim: bytes, *, final: bool = False) -> PeriodClaim | None:
        """Return the period of an open claim, or None for a claim of another market."""

    async def places(self, device: bytes, service: int) -> DevicePlaces:
        """Return the places that a device offers for sessions of a service."""


class SidePayPort(Protocol):
    """Money of checks and votes, and payments for standing by."""

    async def side_payments(self, tasks: Sequence[bytes], since: int) -> dict[bytes, SidePayment]:
        """Return this provider's payments by task that it stood by for.

        All of these ended after the block `since`. Ends that are not final yet or cannot be found are left out. Raise
        ChainError on failure.
        """

    async def claim_money(
        self, claims: Collection[bytes], disputes: Mapping[bytes, bytes], since: int
    ) -> ClaimMoneyRead:
        """Return this provider's fees and losses in claims that it checks and in disputes in which it votes.

        All of them moved after the block `since`. `disputes` has the work of each dispute. Raise ChainError on failure.
        """


class SideMoneyPort(SidePayPort, ClaimPort, Protocol):
    """The money beside a provider's own work, and the claims that it comes from."""


class OffencePort(SendPort, Protocol):
    """Offences that the node saw."""

    async def offences(self) -> list[SeenOffence]:
        """Return the proven offences of validators that proposed twice in one slot."""

    async def is_tombstoned(self, stash: bytes) -> bool:
        """Return True if a validator was already punished for an offence."""


class ChainPort(BidPort, RollCallPort, SessionPort, SideMoneyPort, OffencePort, Protocol):
    """All that a daemon uses of a chain."""

    @property
    def is_development(self) -> bool:
        """True on a development chain, where stores may be on this machine."""

    def views(self) -> AsyncIterator[View]:
        """Yield the newest view, and again after each block.

        It reconnects to the same chain by itself and never ends.
        """
