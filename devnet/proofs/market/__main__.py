"""`python -m devnet.proofs.market`: the throughput of a market of four providers, beside the same tokens computed bare.

A devnet of six validators on this machine, enough for leaf checks. Four offer their devices, and two judge. Each device
has a quarter of one core, in turns with the others, so that the nodes slow them down less. Before and after each size
the network is stopped, and the same devices compute bare.

The requirements: with batches of 256 requests, the market reaches six tenths of the bare throughput with one racer per
unit, and three tenths with two. On a market that always has units, a provider ten times as fast as another earns eight
times as much. For that, the slow provider's processes are stopped for nine tenths of every tenth of a second, and all
other devices are paused. Only units count that ended while others still waited for a draw.

The time of a trade is from the block of the first post to the block of the last payment.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from devnet.launcher.layout import Devnet
from devnet.proofs.market.bare import MAX_TOKENS, Bare, bare
from devnet.proofs.market.processes import cpu_seconds, in_turns, provider_of, roots_of, standing_still, started_by
from devnet.stage.actors import purchase
from devnet.stage.measuring.latency import slot_of
from devnet.stage.network import FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from genesis.presets import ASK
from gpu_tasks.client.units.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Unit, UnitState
from wallet.amounts import format_amount
from wallet.client import ChainClient

PRICE = "0.05"
BARS = {(256, 1): 0.6, (256, 2): 0.3}
"""The required shares of the bare throughput, by requests of a unit and racers."""


@dataclass(frozen=True, slots=True)
class OfferedDevices:
    """The offered devices."""

    providers: Sequence[int]
    """The process of each provider."""
    part: float
    """The part of the time for which each runs."""

    def bare(self, net: Devnet) -> Bare:
        """Measure the devices while the network is stopped.

        Measure near a trade: a machine's speed varies by a fifth in minutes.
        """
        with standing_still(roots_of(net)):
            return bare(len(self.providers), self.part)


@dataclass(frozen=True, slots=True)
class Trade:
    """The outcome of the units of one size. Times are seconds of the chain's clock, money is in grains."""

    requests: int
    racers: int
    units: int
    settled: int
    tokens: int
    seconds: float
    tokens_per_second: float
    blocks_p50: float
    blocks_p95: float
    paid_per_thousand: float
    duties_per_thousand: float
    """The price of prepaid duty calls per thousand tokens."""
    cpu_seconds: float
    """CPU seconds of every process of the network, including the providers' workers."""
    bare: Bare
    """The mean throughput of the same devices just before and just after."""

    @property
    def of_bare(self) -> float:
        """The market's throughput as a part of the bare one."""
        return self.tokens_per_second / self.bare.tokens_per_second

    @property
    def times_bare_cpu(self) -> float:
        """The CPU time as a multiple of that for the same tokens, computed bare once."""
        return self.cpu_seconds / (self.tokens * self.bare.cpu_per_token)


def row_of(trade: Trade) -> str:
    """Return a line of figures."""
    what = f"{trade.requests:>5} requests, {trade.racers} racing: {trade.settled} of {trade.units} units"
    bare = f"{100 * trade.of_bare:.0f} % of {trade.bare.tokens_per_second:.0f} bare"
    rate = f"{trade.tokens} tokens, {trade.tokens_per_second:.0f}/s ({bare})"
    waits = f"{trade.blocks_p50:.0f} blocks to payment, at most {trade.blocks_p95:.0f}"
    return f"{what}, {rate}; {waits}; {trade.times_bare_cpu:.1f} times the bare CPU time"


def failures_of(trades: Sequence[Trade]) -> list[str]:
    """Return a sentence for each kind of unsettled units and each failed requirement."""
    found = [
        f"{trade.units - trade.settled} of {trade.units} units of {trade.requests} requests, {trade.racers} racing, "
        "were not settled"
        for trade in trades
        if trade.settled < trade.units
    ]
    for trade in trades:
        bar = BARS.get((trade.requests, trade.racers), 0.0)
        if trade.of_bare < bar:
            found.append(
                f"{100 * trade.of_bare:.0f} % of the bare tokens with {trade.requests} requests a unit and "
                f"{trade.racers} racing: {100 * bar:.0f} are wanted"
            )
    return found


def traded(
    stage: Stage, devices: OfferedDevices, requests: int, units: int, racers: int, before: Bare
) -> tuple[Trade, Bare]:
    """Post units and wait until they are paid. Return the trade, and the bare throughput after it."""
    net = stage.net
    cpu_before = cpu_seconds(net)
    with in_turns(lambda: [started_by(provider) for provider in devices.providers], devices.part):
        named = posted_and_followed(stage, requests, units, racers, PRICE)
    spent, after = cpu_seconds(net) - cpu_before, devices.bare(net)
    found, seconds, prepaid = stage.ask(lambda chain: _told(chain, named, racers))
    settled = [unit for unit in found if unit.state is UnitState.SETTLED]
    tokens = sum(tokens_of(unit) for unit in settled)
    waits = sorted(unit.ended_at - unit.posted_at for unit in found)
    trade = Trade(
        requests=requests,
        racers=racers,
        units=units,
        settled=len(settled),
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        blocks_p50=statistics.median(waits),
        blocks_p95=waits[min(len(waits) - 1, len(waits) * 95 // 100)],
        paid_per_thousand=1_000 * sum(unit.paid for unit in settled) / max(1, tokens),
        duties_per_thousand=1_000 * prepaid * len(found) / max(1, tokens),
        cpu_seconds=spent,
        bare=before.mean(after),
    )
    return trade, after


def posted_and_followed(stage: Stage, requests: int, units: int, racers: int, price: str) -> list[str]:
    """Post units with `ogpu`, and wait until they have ended. Return their ids."""
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, requests * units)
    file = purchase.write_prompts(stage, f"{requests}-{racers}", prompts)
    words = purchase.post_words(file, racers, price, batch=requests, max_tokens=MAX_TOKENS)
    return sorted({row["unit"] for row in stage.ogpu_lines("unit post", *words, "--watch", "--anyway", is_shown=False)})


async def _told(chain: ChainClient, named: Sequence[str], racers: int) -> tuple[list[Unit], float, int]:
    """Return the units, the seconds from the first post to the last payment, and a unit's prepaid duty calls."""
    found = await _units(chain, named)
    first, last = min(unit.posted_at for unit in found), max(unit.ended_at for unit in found)
    # by their headers: the node may have discarded the first one's state
    slots = [await _slot(chain, height) for height in (first, last)]
    terms = found[0].terms
    quote = await market_reads.quote(chain, found[0].service, terms.price_max, racers, terms.requests)
    seconds = (slots[1] - slots[0]) * CONSENSUS["devnet"].slot_ms / 1_000
    return found, seconds, quote.prepaid if quote else 0


async def _slot(chain: ChainClient, height: int) -> int:
    block = await chain.block_id(height)
    slot = await chain.rpc.ask(slot_of, "chain_getHeader", "0x" + block.hex())
    assert slot is not None, "no unit is posted in genesis"
    return slot


def tokens_of(unit: Unit) -> int:
    """Return the output tokens that a settled unit was paid for."""
    winner = winner_of(unit)
    assert winner is not None, "a settled unit has who was paid"
    assert winner.reveal is not None, "a winner has revealed"
    return winner.reveal.output_tokens


FASTER_BAR = 8.0
"""The least factor between the earnings of a provider and of one with a tenth of its speed."""
SLOWNESS = 10
SHARES_REQUESTS, SHARES_UNITS = 32, 128
"""Small units, so that the slow provider ends several: with only two ends, rounding would dominate."""
SHARES_PRICE = format_amount(ASK * 21 // 20)
"""A price just above both asks, so it hardly rises with a unit's age, and earnings follow tokens."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The payments of two providers in grains and tokens, and the range of blocks."""

    fast_paid: int
    slow_paid: int
    fast_tokens: int
    slow_tokens: int
    from_block: int
    to_block: int
    times_as_much: float


def shared(stage: Stage) -> Shares:
    """Post more units than both can compute, and return their payments while both have work."""
    fast, slow, *others = stage.net.members[:PROVIDERS]
    for member in others:
        stage.pause(member.name)
    provider = provider_of(stage.net, slow)
    with in_turns(lambda: [started_by(provider)], 1 / SLOWNESS):
        named = posted_and_followed(stage, SHARES_REQUESTS, SHARES_UNITS, 1, SHARES_PRICE)
    units = [each for each in stage.ask(lambda chain: _units(chain, named)) if each.state is UnitState.SETTLED]
    found = shares_of(units, dev_accounts.stash(fast.name), dev_accounts.stash(slow.name))
    stage.tell.line(
        f"{fast.name}: {found.fast_tokens} tokens, {slow.name}, ten times as slow: {found.slow_tokens}, in blocks "
        f"{found.from_block} to {found.to_block}; {found.times_as_much:.1f} times as much earned"
    )
    return found


def shares_of(units: list[Unit], fast: bytes, slow: bytes) -> Shares:
    """Return the payments between the slower provider's first and last end, while some units were not drawn.

    The slower one computed all that it was paid for within this range: no unit from before counts.
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


async def _units(chain: ChainClient, named: Sequence[str]) -> list[Unit]:
    return [unit for unit in await market_reads.units(chain, [bytes.fromhex(name[2:]) for name in named]) if unit]


VALIDATORS, PROVIDERS = 6, 4
SIZES = ((1, 48), (16, 32), (256, 16), (4_096, 1))
"""Requests of a unit, and number of units."""
RACERS = (1, 2)
PART = 1 / PROVIDERS
"""Each device's part of one core. Together they take one core, and the nodes have the others."""


@dataclass(frozen=True, slots=True)
class Trades:
    """The outcome of the units of all sizes."""

    trades: list[Trade]
    of_bare: list[float]
    times_bare_cpu: list[float]


def all_traded(stage: Stage) -> Trades:
    """Trade units of each size, and measure the bare throughput between them."""
    devices = OfferedDevices([provider_of(stage.net, member) for member in stage.net.members[:PROVIDERS]], PART)
    before, trades = devices.bare(stage.net), list[Trade]()
    for racers, (requests, units) in product(RACERS, SIZES):
        if requests <= stage.options.largest:
            trade, before = traded(stage, devices, requests, units, racers, before)
            trades.append(trade)
            stage.tell.line(row_of(trade))
    return Trades(trades, [trade.of_bare for trade in trades], [trade.times_bare_cpu for trade in trades])


def too_little(shares: Shares) -> list[str]:
    """Return a failure if the shares miss the requirement."""
    if shares.times_as_much >= FASTER_BAR:
        return []
    return [f"ten times as fast earned {shares.times_as_much:.1f} times as much: {FASTER_BAR} is wanted"]


def figures(facts: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    said = []
    if "trades" in facts:
        best = max(facts["trades"].trades, key=lambda trade: trade.of_bare)
        rates = f"{best.tokens_per_second:.0f} of {best.bare.tokens_per_second:.0f} bare tokens/s at best"
        said.append(f"{rates} ({best.requests} requests a unit, {best.racers} racing)")
    if "shares" in facts:
        said.append(f"ten times as fast earned {facts['shares'].times_as_much:.1f} times as much")
    return "; ".join(said)


def _prepare(stage: Stage) -> None:
    stage.leave_devices_to(*(member.name for member in stage.net.members[:PROVIDERS]))


NETWORK = FreshDevnet(VALIDATORS, prepare=_prepare)
PROOF = LiveProof(
    "market",
    "What a market of four providers computes, beside the same tokens computed bare.",
    [
        Scenario(
            "trades", f"{PROVIDERS} of {VALIDATORS} validators offer a device; batches of up to {{largest:,}} "
            "requests", NETWORK.open, all_traded, lambda found: failures_of(found.trades),
        ),
        Scenario(
            "shares", "One provider slowed down to a tenth, one free, and more units than both can do", NETWORK.open,
            shared, too_little,
        ),
    ],
    figures,
    [ProofOption("--largest", SIZES[-1][0], "no larger batches than this")],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
