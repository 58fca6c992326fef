"""`python -m devnet.proofs.market`: what a market of four providers computes, beside the same tokens computed bare.

A devnet of six validators on this machine, so that the leaves of batches are checked; four offer their devices, two
judge. Each device has a quarter of one core, in turns with the others, so that the nodes slow them down less. Before
and after each size the network stands still and the same devices compute bare. Bars: with batches of 256 requests the
market computes six tenths of the bare tokens where one races for a unit, and three tenths where two do; and on a market
that is never without units a provider ten times as fast as another earns eight times as much. Figures: tokens a second,
blocks from post to payment, what a thousand tokens cost their customer beside the price, and the processor time of all
processes for them. Writes `out/market.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

from devnet.demo import stage
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.measuring import report
from devnet.proofs.market.family import provider_of
from devnet.proofs.market.shares import FASTER_BAR, Shares, shared
from devnet.proofs.market.trades import OfferedDevices, Trade, failures_of, row_of, traded

FOLDER = report.FOLDER / "market"
VALIDATORS, PROVIDERS = 6, 4
SIZES = ((1, 48), (16, 32), (256, 16), (4_096, 1))
"""Requests of a unit, and how many units."""
RACERS = (1, 2)
PART = 1 / PROVIDERS
"""Of one core, for each device: one core is all that they take, and the nodes have the others."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 if every bar held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1][0], help="no larger batches than this; 0 for none")
    parser.add_argument("--no-shares", action="store_true", help="leave the slowed provider out")
    options = parser.parse_args(arguments)
    tell = Narrator(2)
    tell.step(f"Market: {VALIDATORS} validators, {PROVIDERS} of which offer a device")
    net = stage.fresh_network(FOLDER, VALIDATORS, any_ports=True, detach=False, tell=tell)
    trades: list[Trade] = []
    try:
        for member in net.members[PROVIDERS:]:
            stage.set_device(net, member, "pause")
        devices = OfferedDevices([provider_of(net, member) for member in net.members[:PROVIDERS]], PART)
        before = devices.bare(net)
        for racers, (requests, units) in product(RACERS, SIZES):
            if requests <= options.largest:
                trade, before = traded(net, devices, requests, units, racers, before)
                trades.append(trade)
                tell.line(row_of(trade))
        tell.step("Shares: one provider slowed down to a tenth, one free, and more units than both can do")
        shares = None if options.no_shares else shared(net, PROVIDERS, tell)
    finally:
        network.down(net)
    return _ended(trades, shares, tell)


def _ended(trades: list[Trade], shares: Shares | None, tell: Narrator) -> int:
    failures = failures_of(trades)
    if shares is not None and shares.times_as_much < FASTER_BAR:
        failures.append(f"ten times as fast earned {shares.times_as_much:.1f} times as much: {FASTER_BAR} is wanted")
    found = {
        "trades": [
            {**asdict(trade), "of_bare": trade.of_bare, "times_bare_cpu": trade.times_bare_cpu} for trade in trades
        ],
        "shares": None if shares is None else asdict(shares),
        "failures": failures,
    }
    path = report.write("market", found)
    for failure in failures:
        tell.line(f"FAILED: {failure}")
    best = max(trades, key=lambda trade: trade.of_bare, default=None)
    said = []
    if best is not None:
        rates = f"{best.tokens_per_second:.0f} of {best.bare.tokens_per_second:.0f} bare tokens/s at best"
        said.append(f"{rates} ({best.requests} requests a unit, {best.racers} racing)")
    if shares is not None:
        said.append(f"ten times as fast earned {shares.times_as_much:.1f} times as much")
    tell.line(f"market: {'; '.join(said)}; {len(failures)} failures; {path}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
