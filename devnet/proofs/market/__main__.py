"""`python -m devnet.proofs.market`: the throughput of a market of four providers, beside the same tokens computed bare.

A devnet of six validators on this machine. Four offer their devices, and all check results. Each device
has a quarter of one core, in turns with the others, so that the nodes slow them down less. Before and after each size
the network is stopped, and the same devices compute bare.

The requirements: with batches of 256 requests, the market reaches six tenths of the bare throughput with one racer per
unit, and three tenths with two. With `--model NAME`, a language model of this machine is sold instead, in batches of 64
requests with one racer, and six tenths are required.

On a market that always has units, a provider ten times as fast as another earns eight times as much. For that, the slow
provider's processes are stopped for nine tenths of every tenth of a second, and all other devices are paused. Only
units count that ended while others still waited for a draw.

The time of a trade is from the block of the first post to the block in which the last result can be read. Payment comes
with the end of its claim, a minute later, and keeps no device busy.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from devnet.launcher.layout import Devnet
from devnet.proofs.market.bare import MAX_TOKENS, BareBatch, BareThroughput, measure_bare
from devnet.proofs.market.processes import (
    cpu_seconds,
    descendants_of,
    in_turns,
    provider_process_of,
    root_processes_of,
    standing_still,
)
from devnet.stage.actors import purchase
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.measuring.latency import slot_of
from devnet.stage.network import FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from genesis.presets import ASK
from gpu_tasks.client.units.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Unit, UnitState
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from wallet.amounts import format_amount
from wallet.client import ChainClient

PRICE_TEXT = "0.05"
REQUIRED_SHARES = {(64, 1): 0.6, (256, 1): 0.6, (256, 2): 0.3}
"""The required shares of the bare throughput, by requests of a unit and racers. Units of 64 are a language model's."""


@dataclass(frozen=True, slots=True)
class OfferedDevices:
    """The offered devices."""

    providers: Sequence[int]
    """The process of each provider."""
    part: float
    """The part of the time for which each runs."""
    service: int
    """The service that they offer."""
    batch: BareBatch

    def bare(self, devnet: Devnet) -> BareThroughput:
        """Measure the devices while the network is stopped.

        Measure near a trade: a machine's speed varies by a fifth in minutes.
        """
        # Nodes that run meanwhile would take a part of the cores that is measured.
        with standing_still(root_processes_of(devnet)):
            return measure_bare(self.batch, len(self.providers), self.part)


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
    bare: BareThroughput
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
    units_text = f"{trade.requests:>5} requests, {trade.racers} racing: {trade.settled} of {trade.units} units"
    bare_text = f"{100 * trade.of_bare:.0f} % of {trade.bare.tokens_per_second:.0f} bare"
    rate = f"{trade.tokens} tokens, {trade.tokens_per_second:.0f}/s ({bare_text})"
    wait_text = f"{trade.blocks_p50:.0f} blocks to the result, at most {trade.blocks_p95:.0f}"
    return f"{units_text}, {rate}; {wait_text}; {trade.times_bare_cpu:.1f} times the bare CPU time"


def failures_of(trades: Sequence[Trade]) -> list[str]:
    """Return a sentence for each kind of unsettled units and each failed requirement."""
    failures = [
        f"{trade.units - trade.settled} of {trade.units} units of {trade.requests} requests, {trade.racers} racing, "
        "were not settled"
        for trade in trades
        if trade.settled < trade.units
    ]
    for trade in trades:
        required_share = REQUIRED_SHARES.get((trade.requests, trade.racers), 0.0)
        if trade.of_bare < required_share:
            failures.append(
                f"{100 * trade.of_bare:.0f} % of the bare tokens with {trade.requests} requests a unit and "
                f"{trade.racers} racing: {100 * required_share:.0f} are wanted"
            )
    return failures


def trade_units(
    stage: Stage,
    devices: OfferedDevices,
    request_count: int,
    unit_count: int,
    racer_count: int,
    bare_before: BareThroughput,
) -> tuple[Trade, BareThroughput]:
    """Post units and wait until they are paid. Return the trade, and the bare throughput after it."""
    devnet = stage.devnet
    cpu_before = cpu_seconds(devnet)
    with in_turns(lambda: [descendants_of(process) for process in devices.providers], devices.part):
        unit_ids = post_and_follow(stage, request_count, unit_count, racer_count, PRICE_TEXT, devices.service)
    cpu_spent, bare_after = cpu_seconds(devnet) - cpu_before, devices.bare(devnet)
    units_ended, trade_seconds, prepaid = stage.ask(lambda chain: _trade_facts(chain, unit_ids, racer_count))
    settled = [unit for unit in units_ended if unit.state is UnitState.SETTLED]
    token_count = sum(tokens_of(unit) for unit in settled)
    wait_blocks = sorted(answered_at(unit) - unit.posted_at for unit in units_ended)
    trade = Trade(
        requests=request_count,
        racers=racer_count,
        units=unit_count,
        settled=len(settled),
        tokens=token_count,
        seconds=trade_seconds,
        tokens_per_second=token_count / trade_seconds,
        blocks_p50=statistics.median(wait_blocks),
        blocks_p95=wait_blocks[min(len(wait_blocks) - 1, len(wait_blocks) * 95 // 100)],
        paid_per_thousand=1_000 * sum(unit.paid for unit in settled) / max(1, token_count),
        duties_per_thousand=1_000 * prepaid * len(units_ended) / max(1, token_count),
        cpu_seconds=cpu_spent,
        bare=bare_before.mean(bare_after),
    )
    return trade, bare_after


def post_and_follow(
    stage: Stage,
    request_count: int,
    unit_count: int,
    racer_count: int,
    price: str,
    service: int = purchase.SERVICE_NUMBER,
) -> list[str]:
    """Post units with `ogpu`, and wait until they have ended. Return their ids."""
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, request_count * unit_count)
    prompts_file = purchase.write_prompts(stage, f"{request_count}-{racer_count}", prompts)
    arguments = purchase.post_arguments(
        prompts_file, racer_count, price, service=service, batch=request_count, max_tokens=MAX_TOKENS
    )
    return sorted(
        {row["unit"] for row in stage.ogpu_lines("unit post", *arguments, "--watch", "--anyway", is_shown=False)}
    )


async def _trade_facts(chain: ChainClient, unit_ids: Sequence[str], racer_count: int) -> tuple[list[Unit], float, int]:
    """Return the units, the seconds from the first post to the last result, and a unit's prepaid duty calls."""
    units_ended = await _units_by_id(chain, unit_ids)
    first_height, last_height = min(unit.posted_at for unit in units_ended), max(map(answered_at, units_ended))
    # by their headers: the node may have discarded the first one's state
    block_slots = [await _slot_of_block(chain, height) for height in (first_height, last_height)]
    terms = units_ended[0].terms
    quote = await market_reads.quote(chain, units_ended[0].service, terms.price_max, racer_count)
    seconds = (block_slots[1] - block_slots[0]) * CONSENSUS["devnet"].slot_ms / 1_000
    return units_ended, seconds, quote.prepaid if quote else 0


async def _slot_of_block(chain: ChainClient, height: int) -> int:
    block_hash = await chain.block_id(height)
    block_slot = await chain.rpc.ask(slot_of, "chain_getHeader", "0x" + block_hash.hex())
    assert block_slot is not None, "no unit is posted in genesis"
    return block_slot


def answered_at(unit: Unit) -> int:
    """Return the block in which the customer could read the result: that of the last reveal. Return 0 without one."""
    return max((racer.reveal.revealed_at for racer in unit.racers if racer.reveal is not None), default=0)


def tokens_of(unit: Unit) -> int:
    """Return the output tokens that a settled unit was paid for."""
    winner = winner_of(unit)
    assert winner is not None, "a settled unit has a paid provider"
    assert winner.reveal is not None, "a winner has revealed"
    return winner.reveal.output_tokens


FASTER_BAR = 8.0
"""The least factor between the earnings of a provider and of one with a tenth of its speed."""
SLOWNESS = 10
# Small units, so that the slow provider ends several: with only two ends, rounding would dominate.
SHARES_REQUESTS, SHARES_UNITS = 32, 128
# A price just above both asks, so it hardly rises with a unit's age, and earnings follow tokens.
SHARES_PRICE = format_amount(ASK * 21 // 20)


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


def share_work(stage: Stage) -> Shares:
    """Post more units than both can compute, and return their payments while both have work."""
    fast_member, slow_member, *others = stage.devnet.members[:PROVIDER_COUNT]
    for member in others:
        stage.pause(member.name)
    process = provider_process_of(stage.devnet, slow_member)
    with in_turns(lambda: [descendants_of(process)], 1 / SLOWNESS):
        unit_ids = post_and_follow(stage, SHARES_REQUESTS, SHARES_UNITS, 1, SHARES_PRICE)
    units = [unit for unit in stage.ask(lambda chain: _units_by_id(chain, unit_ids)) if unit.state is UnitState.SETTLED]
    shares = shares_of(units, dev_accounts.stash(fast_member.name), dev_accounts.stash(slow_member.name))
    stage.narrator.line(
        f"{fast_member.name}: {shares.fast_tokens} tokens, {slow_member.name}, ten times as slow: "
        f"{shares.slow_tokens}, in blocks "
        f"{shares.from_block} to {shares.to_block}; {shares.times_as_much:.1f} times as much earned"
    )
    return shares


def shares_of(settled: list[Unit], fast_stash: bytes, slow_stash: bytes) -> Shares:
    """Return the payments between the slower provider's first and last result, while some units were not drawn.

    The slower one computed all that it was paid for within this range: no unit from before counts.
    """
    drawn_last = max(unit.round.drawn_at for unit in settled if unit.round is not None)
    slow_results = [answered_at(unit) for unit in settled if _winner_stash(unit) == slow_stash]
    slow_results = [height for height in slow_results if height <= drawn_last]
    first_result, last_result = min(slow_results, default=0), max(slow_results, default=0)
    units_within = [unit for unit in settled if first_result < answered_at(unit) <= last_result]
    paid_by_stash, tokens_by_stash = (
        dict.fromkeys((fast_stash, slow_stash), 0),
        dict.fromkeys((fast_stash, slow_stash), 0),
    )
    for unit in units_within:
        paid_by_stash[_winner_stash(unit)] += unit.paid
        tokens_by_stash[_winner_stash(unit)] += tokens_of(unit)
    return Shares(
        paid_by_stash[fast_stash],
        paid_by_stash[slow_stash],
        tokens_by_stash[fast_stash],
        tokens_by_stash[slow_stash],
        first_result,
        last_result,
        paid_by_stash[fast_stash] / max(1, paid_by_stash[slow_stash]),
    )


def _winner_stash(unit: Unit) -> bytes:
    winner = winner_of(unit)
    assert winner is not None, "only settled units are counted"
    return winner.owner


async def _units_by_id(chain: ChainClient, unit_ids: Sequence[str]) -> list[Unit]:
    return [
        unit for unit in await market_reads.units(chain, [bytes.fromhex(unit_hex[2:]) for unit_hex in unit_ids]) if unit
    ]


VALIDATOR_COUNT, PROVIDER_COUNT = 6, 4
UNIT_SIZES = ((1, 48), (16, 32), (256, 16), (4_096, 1))
"""Requests of a unit, and number of units."""
RACER_COUNTS = (1, 2)
MODEL_SIZES = ((64, 8),)
MODEL_RACERS = (1,)
MODEL_COMMIT_BLOCKS = 300
"""A device with a quarter of a core takes up to a minute to load a model of 135 million weights."""
MODEL_PACE = 4
"""Tokens a block of such a device on a busy machine."""
# Each device's part of one core. Together they take one core, and the nodes have the others.
CORE_SHARE = 1 / PROVIDER_COUNT


@dataclass(frozen=True, slots=True)
class Trades:
    """The outcome of the units of all sizes."""

    trades: list[Trade]
    of_bare: list[float]
    times_bare_cpu: list[float]


def trade_all_sizes(stage: Stage) -> Trades:
    """Trade units of each size, and measure the bare throughput between them."""
    providers = stage.devnet.members[:PROVIDER_COUNT]
    model = stage.options.model
    service = _sell_model(stage, model) if model else purchase.SERVICE_NUMBER
    batch = BareBatch(_workload_of(model), MODEL_SIZES[0][0]) if model else BareBatch()
    devices = OfferedDevices(
        [provider_process_of(stage.devnet, member) for member in providers], CORE_SHARE, service, batch
    )
    bare_before, trades = devices.bare(stage.devnet), list[Trade]()
    racer_counts, sizes = (MODEL_RACERS, MODEL_SIZES) if model else (RACER_COUNTS, UNIT_SIZES)
    for racer_count, (request_count, unit_count) in product(racer_counts, sizes):
        if request_count <= stage.options.largest:
            trade, bare_before = trade_units(stage, devices, request_count, unit_count, racer_count, bare_before)
            trades.append(trade)
            stage.narrator.line(row_of(trade))
    return Trades(trades, [trade.of_bare for trade in trades], [trade.times_bare_cpu for trade in trades])


def _workload_of(model: str) -> str:
    return f"{DECODER}:{model}"


def _sell_model(stage: Stage, model: str) -> int:
    """Let the providers offer a language model of this machine, and return the number of its service."""
    names = [member.name for member in stage.devnet.members[:PROVIDER_COUNT]]
    return sell_model(
        stage,
        ModelSale(_workload_of(model), model, names[0], names, MODEL_COMMIT_BLOCKS, MAX_TOKENS, MODEL_PACE),
    )


def share_failures(shares: Shares) -> list[str]:
    """Return a failure if the shares miss the requirement."""
    if shares.times_as_much >= FASTER_BAR:
        return []
    return [f"ten times as fast earned {shares.times_as_much:.1f} times as much: {FASTER_BAR} is wanted"]


def figures(facts_by_scenario: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    figure_texts = []
    if "trades" in facts_by_scenario:
        best_trade = max(facts_by_scenario["trades"].trades, key=lambda trade: trade.of_bare)
        rate = f"{best_trade.tokens_per_second:.0f} of {best_trade.bare.tokens_per_second:.0f} bare tokens/s at best"
        figure_texts.append(f"{rate} ({best_trade.requests} requests a unit, {best_trade.racers} racing)")
    if "shares" in facts_by_scenario:
        figure_texts.append(f"ten times as fast earned {facts_by_scenario['shares'].times_as_much:.1f} times as much")
    return "; ".join(figure_texts)


def _offer_devices(stage: Stage) -> None:
    stage.leave_devices_to(*(member.name for member in stage.devnet.members[:PROVIDER_COUNT]))


MARKET_NETWORK = FreshDevnet(VALIDATOR_COUNT, prepare=_offer_devices)
PROOF = LiveProof(
    "market",
    "Compare the output of a market of four providers with the same tokens computed bare.",
    [
        Scenario(
            "trades", f"{PROVIDER_COUNT} of {VALIDATOR_COUNT} validators offer a device; batches of each size",
            MARKET_NETWORK.open, trade_all_sizes, lambda found: failures_of(found.trades),
        ),
        Scenario(
            "shares", "One provider slowed down to a tenth, one free, and more units than both can do",
            MARKET_NETWORK.open,
            share_work, share_failures,
        ),
    ],
    figures,
    [
        ProofOption("--largest", UNIT_SIZES[-1][0], "no larger batches than this"),
        ProofOption("--model", "", "a language model of this machine, sold instead of the built-in one"),
    ],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
