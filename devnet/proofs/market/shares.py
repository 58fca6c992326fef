"""A provider that is slowed down on purpose beside a free one, on a market that is never without units.

Slowed down are the processes that compute for it: they are stopped for nine tenths of every tenth of a second. All
other devices are paused. Counted is what each was paid for units that ended while units still waited for a draw.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from devnet.demo.stage import set_device
from devnet.demo.telling import Narrator
from devnet.launcher.layout import Devnet
from devnet.proofs.market.family import provider_of, started_by
from devnet.proofs.market.trades import posted_and_followed, tokens_of
from devnet.proofs.market.turns import in_turns
from genesis import dev_accounts
from genesis.presets import ASK
from gpu_tasks.client.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Unit, UnitState
from wallet.amounts import format_amount
from wallet.client import ChainClient

FASTER_BAR = 8.0
"""Times as much as who has a tenth of its speed, at least."""
SLOWNESS = 10
REQUESTS, UNITS = 32, 128
"""Small enough that the slow one ends some meanwhile: with two ends, one more or less is all that is measured."""
PRICE = format_amount(ASK * 21 // 20)
"""Hardly more than both ask, so it hardly rises with a unit's age: what is earned goes by tokens."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What the two were paid, in grains and tokens, and between which blocks."""

    fast_paid: int
    slow_paid: int
    fast_tokens: int
    slow_tokens: int
    from_block: int
    to_block: int
    times_as_much: float


def shared(net: Devnet, providers: int, tell: Narrator) -> Shares:
    """Post more than both can do, and see who is paid what while all have work; of so many that offer a device."""
    fast, slow, *others = net.members[:providers]
    for member in others:
        set_device(net, member, "pause")
    try:
        provider = provider_of(net, slow)
        with in_turns(lambda: [started_by(provider)], 1 / SLOWNESS):
            named = posted_and_followed(net, REQUESTS, UNITS, 1, PRICE)
    finally:
        for member in others:
            set_device(net, member, "resume")
    units = asyncio.run(_units(net, named))
    found = shares_of(units, dev_accounts.stash(fast.name), dev_accounts.stash(slow.name))
    tell.line(
        f"{fast.name}: {found.fast_tokens} tokens, {slow.name}, ten times as slow: {found.slow_tokens}, in blocks "
        f"{found.from_block} to {found.to_block}; {found.times_as_much:.1f} times as much earned"
    )
    return found


def shares_of(units: list[Unit], fast: bytes, slow: bytes) -> Shares:
    """What each was paid from the first unit that the slower one ended to the last one, while some were not drawn yet.

    Between two of its ends it computed all that it was paid for: no unit that was begun before counts for it.
    """
    drawn_last = max(unit.round.drawn_at for unit in units if unit.round is not None)
    ends = [unit.ended_at for unit in units if _winner(unit) == slow and unit.ended_at <= drawn_last]
    first, last = min(ends, default=0), max(ends, default=0)
    within = [unit for unit in units if first < unit.ended_at <= last]
    paid, tokens = dict.fromkeys((fast, slow), 0), dict.fromkeys((fast, slow), 0)
    for unit in within:
        paid[_winner(unit)] += unit.paid
        tokens[_winner(unit)] += tokens_of(unit)
    return Shares(paid[fast], paid[slow], tokens[fast], tokens[slow], first, last, paid[fast] / max(1, paid[slow]))


def _winner(unit: Unit) -> bytes:
    winner = winner_of(unit)
    assert winner is not None, "only settled units are counted"
    return winner.owner


async def _units(net: Devnet, named: list[str]) -> list[Unit]:
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        found = await market_reads.units(chain, [bytes.fromhex(name[2:]) for name in named])
        return [unit for unit in found if unit is not None and unit.state is UnitState.SETTLED]
