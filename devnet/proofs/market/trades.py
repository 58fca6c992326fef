"""Units of one size, posted and followed with `ogpu`, and what came of them.

The time runs from the block of the first post to the block of the last payment.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from devnet.demo.purchase import DEFAULT_PROMPTS, read_prompts
from devnet.launcher import programs
from devnet.launcher.layout import Devnet
from devnet.measuring.latency import slot_of
from devnet.proofs.market.bare import MAX_TOKENS, Bare, bare
from devnet.proofs.market.family import cpu_seconds, roots_of, standing_still, started_by
from devnet.proofs.market.turns import in_turns
from genesis.parameters import CONSENSUS
from gpu_tasks.client.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Unit, UnitState
from wallet.client import ChainClient

CUSTOMER, PRICE = "Ferdie", "0.05"
BARS = {(256, 1): 0.6, (256, 2): 0.3}
"""Of the bare tokens, by requests of a unit and racers."""


@dataclass(frozen=True, slots=True)
class OfferedDevices:
    """Those that are offered."""

    providers: Sequence[int]
    """The process of each provider."""
    part: float
    """Of the time, for which each runs."""

    def bare(self, net: Devnet) -> Bare:
        """What they compute while the network stands still: two minutes later a machine may be a fifth faster."""
        with standing_still(roots_of(net)):
            return bare(len(self.providers), self.part)


@dataclass(frozen=True, slots=True)
class Trade:
    """What came of the units of one size. Times are seconds of the chain's clock, money is in grains."""

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
    """What is prepaid for duty calls."""
    cpu_seconds: float
    """Of every process of the network, the providers' workers too."""
    bare: Bare
    """What the same devices compute with nothing beside them: the mean of just before and just after."""

    @property
    def of_bare(self) -> float:
        """Tokens a second, as a part of the bare ones."""
        return self.tokens_per_second / self.bare.tokens_per_second

    @property
    def times_bare_cpu(self) -> float:
        """Processor time, beside that of the same tokens computed bare, once."""
        return self.cpu_seconds / (self.tokens * self.bare.cpu_per_token)


def row_of(trade: Trade) -> str:
    """A line of figures."""
    what = f"{trade.requests:>5} requests, {trade.racers} racing: {trade.settled} of {trade.units} units"
    bare = f"{100 * trade.of_bare:.0f} % of {trade.bare.tokens_per_second:.0f} bare"
    rate = f"{trade.tokens} tokens, {trade.tokens_per_second:.0f}/s ({bare})"
    waits = f"{trade.blocks_p50:.0f} blocks to payment, at most {trade.blocks_p95:.0f}"
    return f"{what}, {rate}; {waits}; {trade.times_bare_cpu:.1f} times the bare CPU time"


def failures_of(trades: Sequence[Trade]) -> list[str]:
    """What was not settled, and which bars were missed, as sentences."""
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
    net: Devnet, devices: OfferedDevices, requests: int, units: int, racers: int, before: Bare
) -> tuple[Trade, Bare]:
    """Post so many units of so many requests, and see them paid; and what the devices compute bare after that."""
    cpu_before = cpu_seconds(net)
    with in_turns(lambda: [started_by(provider) for provider in devices.providers], devices.part):
        named = posted_and_followed(net, requests, units, racers, PRICE)
    spent, after = cpu_seconds(net) - cpu_before, devices.bare(net)
    found, seconds, prepaid = asyncio.run(_told(net, named, racers))
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


def posted_and_followed(net: Devnet, requests: int, units: int, racers: int, price: str) -> list[str]:
    """So many units of so many requests, posted with `ogpu`; they have ended."""
    file = net.folder / f"{requests}-{racers}.txt"
    file.write_text("".join(f"{line}\n" for line in read_prompts(DEFAULT_PROMPTS, requests * units)), encoding="utf-8")
    words = ["--url", net.members[0].rpc_url, "post", str(file), "--key", f"//{CUSTOMER}", "--watch", "--anyway"]
    words += ["--batch", str(requests), "--max-tokens", str(MAX_TOKENS), "--racers", str(racers), "--price", price]
    words += ["--yes"]
    return sorted({row["unit"] for row in programs.lines("ogpu", *words, keyring=net.keyring)})


async def _told(net: Devnet, named: Sequence[str], racers: int) -> tuple[list[Unit], float, int]:
    """The units, the seconds from the first post to the last payment, and what a unit prepays for duty calls."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        found = [unit for unit in await market_reads.units(chain, [bytes.fromhex(name[2:]) for name in named]) if unit]
        first, last = min(unit.posted_at for unit in found), max(unit.ended_at for unit in found)
        # by their headers: the state of the first one may be gone by now
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
    """The output tokens that a settled unit was paid for."""
    winner = winner_of(unit)
    assert winner is not None, "a settled unit has who was paid"
    assert winner.reveal is not None, "a winner has revealed"
    return winner.reveal.output_tokens
