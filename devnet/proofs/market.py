"""`python -m devnet.proofs.market`: what a market of four providers computes, beside the same tokens computed bare.

A devnet of four validators with a provider each, on this machine. For each batch size, requests are posted and followed
with `ogpu`; the time runs from the block of the first post to the block of the last payment. Bare are as many worker
processes as there are cores, or providers if those are fewer, on requests of the same kind, with nothing beside them.

Bars: with batches of 256 requests the market computes six tenths of the bare tokens where one races for a unit, and
three tenths where two do. Figures: tokens a second, blocks from post to payment, what a thousand tokens cost their
customer beside the price, and the processor time of all processes for them. Writes `out/market.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from devnet.demo import stage
from devnet.demo.purchase import DEFAULT_PROMPTS, read_prompts
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.layout import Devnet
from devnet.measuring import report
from gpu_tasks.client.results import winner_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import Unit, UnitState
from gpu_tasks.workloads.registry import form_named, open_workload
from runtime.pallets.timestamp import Timestamp
from wallet.client import ChainClient

FOLDER = report.FOLDER / "market"
PROVIDERS = 4
CUSTOMER = "Ferdie"
WORKLOAD, PRICE, MAX_TOKENS = "textgen-int8", "0.05", 32
SIZES = ((1, 8), (16, 8), (256, 8), (4_096, 1))
"""Requests of a unit, and how many units."""
RACERS = (1, 2)
BARS = {(256, 1): 0.6, (256, 2): 0.3}
BARE_REQUESTS = 256
TICK = os.sysconf("SC_CLK_TCK")


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
    of_bare: float
    blocks_p50: float
    blocks_p95: float
    paid_per_thousand: float
    duties_per_thousand: float
    """What is prepaid for duty calls."""
    cpu_seconds: float
    """Of every process of the network, the providers' workers too."""
    bare_cpu_seconds: float
    """Of the same tokens computed bare, once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 if every bar held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1][0], help="no larger batches than this")
    parser.add_argument(
        "--bare", action="store_true", help="compute bare in this process, and print tokens and seconds"
    )
    options = parser.parse_args(arguments)
    if options.bare:
        _compute_bare()
        return 0
    tell = Narrator(2)
    tell.step("Bare: the same workload, with nothing beside it")
    bare, bare_cpu = _bare()
    tell.line(f"{bare:.0f} tokens/s, {1_000 * bare_cpu:.2f} s of processor time for a thousand tokens")
    tell.step(f"Market: {PROVIDERS} validators with a provider each")
    net = stage.fresh_network(FOLDER, PROVIDERS, any_ports=True, detach=False, tell=tell)
    trades: list[Trade] = []
    try:
        for racers in RACERS:
            for requests, units in SIZES:
                if requests <= options.largest:
                    trades.append(_traded(net, requests, units, racers, bare, bare_cpu))
                    tell.line(_row(trades[-1]))
    finally:
        network.down(net)
    failures = failures_of(trades)
    rows = [asdict(trade) for trade in trades]
    path = report.write("market", {"bare_tokens_per_second": bare, "trades": rows, "failures": failures})
    for failure in failures:
        tell.line(f"FAILED: {failure}")
    best = max(trades, key=lambda trade: trade.of_bare)
    tell.line(
        f"market: {best.tokens_per_second:.0f} of {bare:.0f} bare tokens/s at best ({best.requests} requests a unit, "
        f"{best.racers} racing); {len(failures)} failures; {path}"
    )
    return 1 if failures else 0


def _row(trade: Trade) -> str:
    what = f"{trade.requests:>5} requests, {trade.racers} racing: {trade.settled} of {trade.units} units"
    rate = f"{trade.tokens} tokens, {trade.tokens_per_second:.0f}/s ({100 * trade.of_bare:.0f} % of bare)"
    waits = f"{trade.blocks_p50:.0f} blocks to payment, at most {trade.blocks_p95:.0f}"
    return f"{what}, {rate}; {waits}; {trade.cpu_seconds / trade.bare_cpu_seconds:.1f} times the bare CPU time"


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


# ------------------------------------------------------------------------------------------------------------- bare


def _bare() -> tuple[float, float]:
    """Tokens a second of the machine, and seconds of processor time a token."""
    count = min(PROVIDERS, os.cpu_count() or 1)
    command = [sys.executable, "-m", "devnet.proofs.market", "--bare"]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread) for _ in range(count)]
    said = [process.communicate()[0].split() for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("the bare workload failed: its message stands above")
    tokens = [int(each[0]) for each in said]
    wall, cpu = max(float(each[1]) for each in said), sum(float(each[2]) for each in said)
    return sum(tokens) / wall, cpu / sum(tokens)


def _compute_bare() -> None:
    """Tokens, seconds and processor seconds of this process alone, of one batch."""
    workload, form = open_workload(WORKLOAD), form_named(WORKLOAD)
    lines = read_prompts(DEFAULT_PROMPTS, BARE_REQUESTS)
    requests = [form.encode(line, MAX_TOKENS, {}, number.to_bytes(32, "little")) for number, line in enumerate(lines)]
    began, cpu_began = time.monotonic(), time.process_time()
    tokens = sum(form.cost(output) for _, output in workload.run_many(requests) if output is not None)
    sys.stdout.write(f"{tokens} {time.monotonic() - began} {time.process_time() - cpu_began}\n")


# ----------------------------------------------------------------------------------------------------------- market


def _traded(net: Devnet, requests: int, units: int, racers: int, bare: float, bare_cpu: float) -> Trade:
    file = net.folder / f"{requests}-{racers}.txt"
    file.write_text("".join(f"{line}\n" for line in read_prompts(DEFAULT_PROMPTS, requests * units)), encoding="utf-8")
    words = ["--url", net.members[0].rpc_url, "post", str(file), "--key", f"//{CUSTOMER}", "--watch", "--anyway"]
    words += ["--batch", str(requests), "--max-tokens", str(MAX_TOKENS), "--racers", str(racers), "--price", PRICE]
    before = _cpu_seconds(net)
    named = {row["unit"] for row in programs.lines("ogpu", *words, keyring=net.keyring)}
    spent = _cpu_seconds(net) - before
    found, seconds, prepaid = asyncio.run(_told(net, sorted(named), racers))
    settled = [unit for unit in found if unit.state is UnitState.SETTLED]
    tokens = sum(_tokens(unit) for unit in settled)
    waits = sorted(unit.ended_at - unit.posted_at for unit in found)
    return Trade(
        requests=requests,
        racers=racers,
        units=units,
        settled=len(settled),
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        of_bare=tokens / seconds / bare,
        blocks_p50=statistics.median(waits),
        blocks_p95=waits[min(len(waits) - 1, len(waits) * 95 // 100)],
        paid_per_thousand=1_000 * sum(unit.paid for unit in settled) / max(1, tokens),
        duties_per_thousand=1_000 * prepaid * len(found) / max(1, tokens),
        cpu_seconds=spent,
        bare_cpu_seconds=tokens * bare_cpu,
    )


async def _told(net: Devnet, named: Sequence[str], racers: int) -> tuple[list[Unit], float, int]:
    """The units, the seconds from the first post to the last payment, and what a unit prepays for duty calls."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        found = [unit for unit in await market_reads.units(chain, [bytes.fromhex(name[2:]) for name in named]) if unit]
        first, last = min(unit.posted_at for unit in found), max(unit.ended_at for unit in found)
        times = [await chain.read(Timestamp.now, at=await chain.block_id(height)) for height in (first, last)]
        quote = await market_reads.quote(chain, found[0].service, found[0].terms.price_max, racers)
        return found, (times[1] - times[0]) / 1_000, quote.prepaid if quote else 0


def _tokens(unit: Unit) -> int:
    winner = winner_of(unit)
    assert winner is not None, "a settled unit has who was paid"
    assert winner.reveal is not None, "a winner has revealed"
    return winner.reveal.output_tokens


def _cpu_seconds(net: Devnet) -> float:
    """Of every process of the network and all that they started, dead ones too."""
    roots = {pid for process in network.all_processes(net) if (pid := processes.running(process)) is not None}
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            spent[int(folder.name)] = sum(map(int, fields[11:15]))
    return sum(ticks for pid, ticks in spent.items() if is_of(pid, roots, parents)) / TICK


def is_of(pid: int, roots: set[int], parents: dict[int, int]) -> bool:
    """Whether a process is one of these, or was started by one of them, however far up."""
    while pid and pid not in roots:
        pid = parents.get(pid, 0)
    return pid in roots


if __name__ == "__main__":
    sys.exit(main())
