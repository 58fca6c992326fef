"""Units and money on the final chain: read from the events of its blocks, by height.

Invariant: only final blocks are read, and amounts are whole grains.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.claims.claim_events import ItemDisputed
from gpu_tasks.market.inference.events import (
    PlaceRefilled,
    ProviderSlashed,
    RaceMissed,
    UnitDisputed,
    UnitMatched,
    UnitRefunded,
    UnitSettled,
)
from gpu_tasks.market.inference.units import dispute_id_of
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient

LedgerEvent = TypeVar("LedgerEvent")


class EventBook(Protocol):
    """A consumer of the events of final blocks, in order."""

    next_height: int

    def take(self, height: int, event: object) -> None:
        """Take an event of the block at this height."""


@dataclass(slots=True)
class EventTrace:
    """All events about one subject, each with the height of its final block."""

    happened: list[tuple[int, Any]] = field(default_factory=list)

    def all(self, kind: type[LedgerEvent]) -> list[tuple[int, LedgerEvent]]:
        """Return the events of a kind with their heights, in order."""
        return [(height, event) for height, event in self.happened if isinstance(event, kind)]

    def events(self, event_kind: type[LedgerEvent]) -> list[LedgerEvent]:
        """Return the events of a kind, in order."""
        return [event for _, event in self.all(event_kind)]

    def first(self, event_kind: type[LedgerEvent]) -> tuple[int, LedgerEvent] | None:
        """Return the first event of a kind with its height, or None."""
        return next(iter(self.all(event_kind)), None)


@dataclass(slots=True)
class UnitRecord(EventTrace):
    """The events of one unit, of its claim and of its disputes, and those of their holds."""

    @property
    def price(self) -> int:
        """The price of its last race in grains."""
        return next((unit_draw.price for unit_draw in reversed(self.events(UnitMatched))), 0)

    @property
    def racers(self) -> list[bytes]:
        """Every provider that was drawn for it, once per draw."""
        drawn_racers = [racer for unit_draw in self.events(UnitMatched) for racer in unit_draw.racers]
        return drawn_racers + [unit_draw.provider for unit_draw in self.events(PlaceRefilled)]

    @property
    def settled(self) -> list[tuple[int, UnitSettled]]:
        """Its payments."""
        return self.all(UnitSettled)

    @property
    def refunded(self) -> list[tuple[int, UnitRefunded]]:
        """Its refunds: the ends without a payment."""
        return self.all(UnitRefunded)

    def winners(self) -> list[bytes]:
        """Return the paid provider of each payment."""
        return [settlement.winner for settlement in self.events(UnitSettled)]

    def attesters(self) -> list[bytes]:
        """Return the author of each attestation that the chain accepted."""
        return [attestation.provider for attestation in self.events(Attested)]


@dataclass(slots=True)
class DevnetLedger:
    """Units by id, and the transaction fees that each account paid, in the blocks below `next_height`."""

    next_height: int = 1
    units: dict[bytes, UnitRecord] = field(default_factory=dict)
    fees: dict[bytes, int] = field(default_factory=dict)
    unit_of_dispute: dict[bytes, bytes] = field(default_factory=dict)

    def unit(self, unit: bytes) -> UnitRecord:
        """Return the record of a unit, empty at first."""
        return self.units.setdefault(unit, UnitRecord())

    def take(self, height: int, event: object) -> None:
        """Take an event of the block at this height."""
        if isinstance(event, TransactionFeePaid):
            self.fees[event.who] = self.fees.get(event.who, 0) + event.actual_fee
            return
        unit_id = self.unit_of(event)
        if unit_id is None:
            return
        record = self.unit(unit_id)
        record.happened.append((height, event))
        if isinstance(event, ItemDisputed):
            self.unit_of_dispute[event.dispute] = unit_id
        elif isinstance(event, UnitDisputed) and record.events(UnitMatched):
            self.unit_of_dispute[dispute_id_of(unit_id, record.events(UnitMatched)[-1].attempt)] = unit_id

    def unit_of(self, event: object) -> bytes | None:
        """Return the unit of an event about a unit, its claim, a dispute about it, or a hold for one of them."""
        names = ("unit", "claim", "dispute", "case")
        subject = next((getattr(event, name) for name in names if hasattr(event, name)), None)
        if not isinstance(subject, bytes):
            return None
        unit_id = self.unit_of_dispute.get(subject, subject)
        return unit_id if hasattr(event, "unit") or unit_id in self.units else None

    def penalties(self) -> list[tuple[int, ProviderSlashed | RaceMissed]]:
        """Return every slash of a provider and every fine for an unfinished race, with its height."""
        return [*self.all(ProviderSlashed), *self.all(RaceMissed)]

    def all(self, kind: type[LedgerEvent]) -> list[tuple[int, LedgerEvent]]:
        """Return the events of a kind about any unit, with their heights."""
        return [event for record in self.units.values() for event in record.all(kind)]


async def read_ledger(chain: ChainClient, first_height: int, last_height: int | None = None) -> DevnetLedger:
    """Return a ledger of the final blocks from `first_height` to `last_height`, or to the newest."""
    event_book = DevnetLedger(next_height=first_height)
    await read_on(chain, event_book, last_height)
    return event_book


async def read_on(chain: ChainClient, event_book: EventBook, last_height: int | None = None) -> None:
    """Continue a ledger to `last_height`, or to the newest final block. A node keeps events for some hundred blocks."""
    async for height, _, block_events in final_blocks(chain, event_book.next_height, last_height):
        for event in block_events:
            event_book.take(height, event)
        event_book.next_height = height + 1


async def final_blocks(
    chain: ChainClient, first_height: int, last_height: int | None = None
) -> AsyncIterator[tuple[int, bytes, list[Any]]]:
    """Yield height, hash and events of the final blocks from `first_height` to `last_height`, or to the newest."""
    # By height, and not by subscription: a subscription may leave out blocks that became final together.
    for height in range(first_height, (last_height or await final_height(chain)) + 1):
        block_id = await block_hash(chain, height)
        yield height, block_id, [record.event for record in await chain.events(block_id)]


async def final_height(chain: ChainClient) -> int:
    """Return the height of the newest final block."""
    return await chain.height(await chain.finalized())


async def block_hash(chain: ChainClient, height: int) -> bytes:
    """Return the id of the block at a height."""
    return bytes.fromhex((await chain.rpc.call("chain_getBlockHash", height))[2:])


async def wealth(chain: ChainClient, account: bytes, height: int) -> int:
    """Return the grains of an account after the final block at a height: free and reserved."""
    # Holds move grains between free and reserved. Only a payment changes their sum.
    account_data = (await chain.read(System.account, account, at=await block_hash(chain, height))).data
    return int(account_data.free + account_data.reserved)


async def issuance(chain: ChainClient, at_block: bytes | None = None) -> int:
    """Return the grains that exist at a block, by default the newest final one."""
    return int(await chain.read(Balances.total_issuance, at=at_block or await chain.finalized()))


async def next_height(node_url: str) -> int:
    """Return the height of the first block that the node at a URL does not report as final."""
    async with await ChainClient.connect(node_url) as chain:
        return await final_height(chain) + 1
