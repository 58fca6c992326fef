"""`python -m devnet.proofs.roll_call`: a roll call over real nodes and daemons; exit 1 if a bar fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from devnet.demo import stage
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.measuring.report import Report, write
from devnet.proofs.roll_call.course import CAST, FIRST_CALL, NUMBERS, RollCallStage, call_early, play
from devnet.proofs.roll_call.judging import CalledProvider, judge

STEPS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, one roll call; 0 if every bar held."""
    parser = argparse.ArgumentParser("devnet.proofs.roll_call", description="A roll call over real nodes.")
    parser.add_argument("--folder", type=Path, default=Path("out") / "roll-call", help="of the network; emptied first")
    parser.add_argument("--first-call", type=int, default=FIRST_CALL, help="block of the roll call: after all enrolled")
    options = parser.parse_args(arguments)
    tell = Narrator(STEPS)
    net = None
    with network.ending_on_signals():
        try:
            tell.step(f"Network: {len(CAST)} validators, each with a GPU provider; the chain holds roll calls")
            net = stage.fresh_network(
                options.folder, len(CAST), any_ports=True, detach=False, tell=tell, numbers=NUMBERS,
                before_start=lambda net: call_early(net, options.first_call),
            )  # fmt: skip
            found, providers = play(net, tell)
        finally:
            if net is not None:
                network.down(net)
    return _finish(found, providers, tell)


def _finish(found: RollCallStage, providers: list[CalledProvider], tell: Narrator) -> int:
    trace, failures = found.trace, judge(found.trace, providers, found.bonds)
    table = Table("provider", "part", "committed", "objections", "units", "bond lost", "status says")
    for each in providers:
        figures = (trace.rates.get(each.device, 0), trace.objections[each.device], trace.assigned[each.device])
        lost = trace.lost[each.device]
        table.add_row(each.name, each.part.value, *map(str, (*figures, lost)), each.why_no_work or "")
    tell.console.print(table)
    for failure in failures:
        print(f"FAILED {failure}")
    able = sum(each.part.may_work for each in providers)
    report: Report = {
        "providers": [
            {
                "name": each.name, "part": each.part.name.lower(), "rate": trace.rates.get(each.device, 0),
                "objections": trace.objections[each.device], "units": trace.assigned[each.device],
                "bond_lost_grains": trace.lost[each.device], "status": each.why_no_work, "doctor": each.diagnosis,
            }
            for each in providers
        ],
        "failures": failures, "seconds": round(tell.seconds),
    }  # fmt: skip
    path = write("rollcall", report)
    print(
        f"rollcall: {len(providers)} devices, {able} may work after it, {sum(trace.objections.values())} objections, "
        f"{sum(map(bool, trace.lost.values()))} bonds lost; {len(failures)} failures; {report['seconds']} s; {path}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"rollcall: {failure}")
