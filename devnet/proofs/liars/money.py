"""The money of people and the bonds of providers on the true chain, read from its final blocks.

Invariant: the source is an honest node, without a proxy. Amounts are whole grains.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from devnet.stage.measuring import ledger
from devnet.stage.measuring.ledger import DevnetLedger
from genesis import dev_accounts
from genesis.preset_names import DEV_NAMES
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitPosted
from runtime.pallets.balances import Transfer
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient

END_SECONDS = 180.0
POLL_SECONDS = 2.0


@dataclass(slots=True)
class Moves:
    """An account's actions on the chain, and its grains at the start and at the end."""

    transfers: list[tuple[bytes, int]] = field(default_factory=list)
    units: list[bytes] = field(default_factory=list)
    extrinsics: int = 0
    fees: int = 0
    before: int = 0
    after: int = 0

    @property
    def gone(self) -> int:
        """The grains that it lost."""
        return self.before - self.after


@dataclass(slots=True)
class Books:
    """The moves of all accounts, in the final blocks below `next_height`."""

    moves: dict[bytes, Moves]
    next_height: int = 1
    market: DevnetLedger = field(default_factory=DevnetLedger)

    def take(self, height: int, event: object) -> None:
        """Take an event of the block at this height."""
        self.market.take(height, event)
        match event:
            case Transfer(sender, to, amount) if sender in self.moves:
                self.moves[sender].transfers.append((to, amount))
            case UnitPosted() if event.customer in self.moves:
                self.moves[event.customer].units.append(event.unit)
            case TransactionFeePaid(who, fee) if who in self.moves:
                self.moves[who].extrinsics += 1
                self.moves[who].fees += fee
            case _:
                pass

    def cost_of_units(self, account: bytes, prepaid: int) -> int:
        """Return the cost of an account's units: payments, burned grains, and each unit's prepaid duty calls."""
        cost = 0
        for unit in self.moves[account].units:
            record = self.market.unit(unit)
            cost += prepaid + sum(event.paid for _, event in record.settled)
            cost += sum(event.lost for _, event in record.refunded)
        return cost

    def open_units(self, account: bytes) -> list[bytes]:
        """Return the units of an account that have not ended."""
        records = ((unit, self.market.unit(unit)) for unit in self.moves[account].units)
        return [unit for unit, record in records if not record.settled and not record.refunded]

    def count_units(self) -> dict[str, int]:
        """Return the number of units, and of each kind of end."""
        records = [self.market.unit(unit) for moves in self.moves.values() for unit in moves.units]
        return {
            "units": len(records),
            "settled": sum(len(record.settled) for record in records),
            "refunded": sum(len(record.refunded) for record in records),
        }

    def ended_wrongly(self) -> list[str]:
        """Return a sentence for each unit that did not end exactly once."""
        found = []
        for unit in (unit for moves in self.moves.values() for unit in moves.units):
            record = self.market.unit(unit)
            if len(record.settled) + len(record.refunded) != 1:
                ended = f"settled {len(record.settled)} times and refunded {len(record.refunded)} times"
                found.append(f"unit 0x{unit.hex()} was {ended}")
        return found

    def bonds_touched(self) -> list[str]:
        """Return a sentence for each slash and each fine. All providers here are honest."""
        return [
            f"block {height}: {_name_of(event.provider)} is honest and lost {type(event).__name__} {_amount(event)} "
            f"grains for unit 0x{event.unit.hex()}"
            for height, event in self.market.penalties()
        ]


def _name_of(stash: bytes) -> str:
    return next((name for name in DEV_NAMES if dev_accounts.stash(name) == stash), stash.hex())


def _amount(event: ProviderSlashed | RaceMissed) -> int:
    return event.amount


async def opened(chain: ChainClient, accounts: Sequence[bytes]) -> Books:
    """Return books that begin after the newest final block."""
    height = await ledger.final_height(chain)
    books = Books({account: Moves() for account in accounts}, height + 1)
    for account, moves in books.moves.items():
        moves.before = await ledger.wealth(chain, account, height)
    return books


async def _follow(chain: ChainClient, books: Books) -> None:
    """Read all blocks soon, until cancelled, because nodes discard old states."""
    while True:
        await ledger.read_on(chain, books)
        await asyncio.sleep(POLL_SECONDS)


@contextlib.asynccontextmanager
async def kept(chain: ChainClient, books: Books) -> AsyncIterator[None]:
    """Follow the chain during the block, then close the books."""
    following = asyncio.create_task(_follow(chain, books))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await _close(chain, books)


async def _close(chain: ChainClient, books: Books) -> None:
    """Read on until all units of these accounts have ended, at most `END_SECONDS`. Then record the final balances."""
    deadline = asyncio.get_running_loop().time() + END_SECONDS
    await ledger.read_on(chain, books)
    while any(map(books.open_units, books.moves)) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        await ledger.read_on(chain, books)
    for account, moves in books.moves.items():
        moves.after = await ledger.wealth(chain, account, books.next_height - 1)
