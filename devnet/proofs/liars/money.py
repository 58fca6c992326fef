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
class AccountMoves:
    """An account's actions on the chain, and its grains at the start and at the end."""

    transfers: list[tuple[bytes, int]] = field(default_factory=list)
    units: list[bytes] = field(default_factory=list)
    extrinsics: int = 0
    fees: int = 0
    wealth_before: int = 0
    wealth_after: int = 0

    @property
    def lost_grains(self) -> int:
        """The grains that it lost."""
        return self.wealth_before - self.wealth_after


@dataclass(slots=True)
class AccountBooks:
    """The moves of all accounts, in the final blocks below `next_height`."""

    moves_by_account: dict[bytes, AccountMoves]
    next_height: int = 1
    market: DevnetLedger = field(default_factory=DevnetLedger)

    def take(self, height: int, event: object) -> None:
        """Take an event of the block at this height."""
        self.market.take(height, event)
        match event:
            case Transfer(sender, receiver, transferred_grains) if sender in self.moves_by_account:
                self.moves_by_account[sender].transfers.append((receiver, transferred_grains))
            case UnitPosted() if event.customer in self.moves_by_account:
                self.moves_by_account[event.customer].units.append(event.unit)
            # Every signed extrinsic pays a fee, so fees count the extrinsics of an account.
            case TransactionFeePaid(fee_payer, fee_grains) if fee_payer in self.moves_by_account:
                self.moves_by_account[fee_payer].extrinsics += 1
                self.moves_by_account[fee_payer].fees += fee_grains
            case _:
                pass

    def cost_of_units(self, account: bytes, prepaid: int) -> int:
        """Return the cost of an account's units: payments, burned grains, and each unit's prepaid duty calls."""
        cost_grains = 0
        for unit_id in self.moves_by_account[account].units:
            record = self.market.unit(unit_id)
            cost_grains += prepaid + sum(event.paid for _, event in record.settled)
            cost_grains += sum(event.lost for _, event in record.refunded)
        return cost_grains

    def open_units(self, account: bytes) -> list[bytes]:
        """Return the units of an account that have not ended."""
        records_by_unit = ((unit_id, self.market.unit(unit_id)) for unit_id in self.moves_by_account[account].units)
        return [unit_id for unit_id, record in records_by_unit if not record.settled and not record.refunded]

    def count_units(self) -> dict[str, int]:
        """Return the number of units, and of each kind of end."""
        records = [self.market.unit(unit_id) for moves in self.moves_by_account.values() for unit_id in moves.units]
        return {
            "units": len(records),
            "settled": sum(len(record.settled) for record in records),
            "refunded": sum(len(record.refunded) for record in records),
        }

    def ended_wrongly(self) -> list[str]:
        """Return a sentence for each unit that did not end exactly once."""
        wrong_ends = []
        for unit_id in (unit_id for moves in self.moves_by_account.values() for unit_id in moves.units):
            record = self.market.unit(unit_id)
            if len(record.settled) + len(record.refunded) != 1:
                end_text = f"settled {len(record.settled)} times and refunded {len(record.refunded)} times"
                wrong_ends.append(f"unit 0x{unit_id.hex()} was {end_text}")
        return wrong_ends

    def bonds_touched(self) -> list[str]:
        """Return a sentence for each slash and each fine. All providers here are honest."""
        return [
            f"block {height}: {_validator_name(event.provider)} is honest and lost "
            f"{type(event).__name__} {_penalty_grains(event)} grains for unit 0x{event.unit.hex()}"
            for height, event in self.market.penalties()
        ]


def _validator_name(validator_stash: bytes) -> str:
    return next((name for name in DEV_NAMES if dev_accounts.stash(name) == validator_stash), validator_stash.hex())


def _penalty_grains(event: ProviderSlashed | RaceMissed) -> int:
    return event.amount


async def open_books(chain: ChainClient, accounts: Sequence[bytes]) -> AccountBooks:
    """Return books that begin after the newest final block."""
    final_height = await ledger.final_height(chain)
    books = AccountBooks({account: AccountMoves() for account in accounts}, final_height + 1)
    for account, moves in books.moves_by_account.items():
        moves.wealth_before = await ledger.wealth(chain, account, final_height)
    return books


async def _follow_chain(chain: ChainClient, books: AccountBooks) -> None:
    """Read all blocks soon, until cancelled, because nodes discard old states."""
    while True:
        await ledger.read_on(chain, books)
        await asyncio.sleep(POLL_SECONDS)


@contextlib.asynccontextmanager
async def kept_books(chain: ChainClient, books: AccountBooks) -> AsyncIterator[None]:
    """Follow the chain during the block, then close the books."""
    following_task = asyncio.create_task(_follow_chain(chain, books))
    try:
        yield
    finally:
        following_task.cancel()
        await asyncio.gather(following_task, return_exceptions=True)
    await _close_books(chain, books)


async def _close_books(chain: ChainClient, books: AccountBooks) -> None:
    """Read on until all units of these accounts have ended, at most `END_SECONDS`. Then record the final balances."""
    deadline = asyncio.get_running_loop().time() + END_SECONDS
    await ledger.read_on(chain, books)
    while any(map(books.open_units, books.moves_by_account)) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        await ledger.read_on(chain, books)
    for account, moves in books.moves_by_account.items():
        moves.wealth_after = await ledger.wealth(chain, account, books.next_height - 1)
