"""What the true chain says of people's money and of providers' bonds, read from its final blocks.

Always: an honest node is asked, directly; amounts are whole grains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from devnet.measuring import ledger
from devnet.measuring.ledger import DevnetLedger
from gpu_tasks.market.inference.events import UnitPosted
from runtime.pallets.balances import Transfer
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient


@dataclass(slots=True)
class Moves:
    """What an account did on the chain, and what it owned when that began and in the end."""

    transfers: list[tuple[bytes, int]] = field(default_factory=list)
    units: list[bytes] = field(default_factory=list)
    extrinsics: int = 0
    fees: int = 0
    before: int = 0
    after: int = 0

    @property
    def gone(self) -> int:
        """Grains that it has no more."""
        return self.before - self.after


@dataclass(slots=True)
class Books:
    """All of it, from one height to another."""

    moves: dict[bytes, Moves]
    market: DevnetLedger = field(default_factory=DevnetLedger)
    first: int = 0
    last: int = 0

    def take(self, height: int, event: object) -> None:
        """One event of the block at that height."""
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
        """What the units of an account cost it: payments, what burned, and what each pays in advance for duties."""
        cost = 0
        for unit in self.moves[account].units:
            record = self.market.unit(unit)
            cost += prepaid + sum(event.paid for _, event in record.settled)
            cost += sum(event.burned for _, event in record.refunded)
        return cost

    def open_units(self, account: bytes) -> list[bytes]:
        """Those that have not ended."""
        records = ((unit, self.market.unit(unit)) for unit in self.moves[account].units)
        return [unit for unit, record in records if not record.settled and not record.refunded]


async def read(chain: ChainClient, accounts: Iterable[bytes], first: int) -> Books:
    """The books from the block after height `first` to the newest final one."""
    last = await ledger.final_height(chain)
    books = Books({account: Moves() for account in accounts}, first=first, last=last)
    for height in range(first + 1, last + 1):
        for record in await chain.events(await ledger.block_hash(chain, height)):
            books.take(height, record.event)
    for account, moves in books.moves.items():
        moves.before = await ledger.wealth(chain, account, first)
        moves.after = await ledger.wealth(chain, account, last)
    return books
