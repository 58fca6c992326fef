"""`python -m devnet.proofs.work --units 200`: honest work only, with one provider killed midway; exit 1 if a bar fails.

The bars: every unit is settled and paid exactly once, its completion opens and matches its hash, the provider that was
killed with -9 comes back and is paid again, and nobody is slashed or fined.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.demo import purchase, stage
from devnet.demo.purchase import UnitView, name_of
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import provider_process
from devnet.measuring.ledger import DevnetLedger
from devnet.measuring.report import write
from runtime.cryptography.ss58 import encode as ss58
from wallet.amounts import format_amount

VICTIM = "Bob"


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, the units, the judgement."""
    options = _parse(arguments)
    tell = Narrator(2)
    net = None
    with network.ending_on_signals():
        try:
            tell.step(f"Network: {stage.VALIDATORS} validators, each with a GPU provider")
            net = stage.fresh_network(options.folder, any_ports=True, detach=False, tell=tell)
            tell.step(f"Work: {options.units} units; {VICTIM}'s provider is killed midway")
            prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, options.units)
            killing = Killing(net, options.units // 2, tell)
            units, book, wrong = purchase.trace(net, purchase.buy(net, prompts, tell, killing.on_ended))
        finally:
            if net is not None:
                network.down(net)
    failures = [*wrong, *_failures(units, book, killing.at_block, options.units)]
    return _finish(units, failures, killing, tell)


class Killing:
    """Kills the victim's provider when half of the units have ended, and starts it again."""

    def __init__(self, net: Devnet, after: int, tell: Narrator) -> None:
        """Nothing is killed yet."""
        self._net = net
        self._after = after
        self._tell = tell
        self.at_block: int | None = None

    def on_ended(self, count: int, row: UnitView) -> None:
        """A unit has ended, the `count`th."""
        if count < self._after or self.at_block is not None:
            return
        self.at_block = int(row["ended_in_block"])
        victim = provider_process(self._net, self._net.member(VICTIM))
        pid = processes.kill(victim)
        processes.start(victim)
        self._tell.line(
            f"killed the provider of {VICTIM} (process {pid}) after block {self.at_block}; started it again"
        )


def _failures(units: list[UnitView], book: DevnetLedger, killed_at: int | None, wanted: int) -> list[str]:
    found = [
        f"unit {unit['unit']} is {unit['state']} and was paid {unit['times_paid']} times"
        for unit in units
        if unit["times_paid"] != 1 or unit["state"] != "settled" or unit["completion"] is None
    ]
    if len(units) != wanted:
        found.append(f"{len(units)} units instead of {wanted}")
    found += [f"{name_of(ss58(event.provider))} was slashed" for _, event in book.slashes()]
    found += [f"{name_of(ss58(event.provider))} was fined for a miss" for _, event in book.misses()]
    if killed_at is None:
        found.append("nothing was killed")
    elif not any(unit.get("block", 0) > killed_at and VICTIM in (unit["payee"], unit["witness"]) for unit in units):
        found.append(f"{VICTIM} was not paid again after it was killed")
    return found


def _finish(units: list[UnitView], failures: list[str], killing: Killing, tell: Narrator) -> int:
    seconds = round(tell.seconds)
    figures = {"units": units, "killed_after_block": killing.at_block, "failures": failures, "seconds": seconds}
    path = write("work", figures)
    for failure in failures:
        print(f"FAILED {failure}")
    once = sum(unit["times_paid"] == 1 for unit in units)
    paid = format_amount(sum(int(unit.get("cost_grains", 0)) for unit in units))
    print(
        f"work: {once} of {len(units)} units paid once, {paid} oGPU in all, one provider killed midway; "
        f"{len(failures)} failures; {seconds} s; {path}"
    )
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.work", description="Honest work, with a provider killed midway.")
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("out") / "work", help="of the network; emptied first")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"work: {failure}")
