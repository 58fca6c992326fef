"""`python -m devnet.proofs.liars`: nodes and blob stores lie to every program on a live devnet; exit 1 if a bar fails.

The bars: 0 grains moved that no command said, 0 honest bonds touched, 0 units posted twice, 0 programs dead, and each
lie that matters named, but for those about what is not final: no proof of that exists.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from devnet.launcher import lifecycle, processes
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.proofs.liars import network
from devnet.proofs.liars.bad_stores import BadStoresRun, run_bad_stores
from devnet.proofs.liars.catalogue import LIES, UNPROVABLE
from devnet.proofs.liars.course import LiarsRun, LyingCourse
from devnet.proofs.liars.judging import as_json
from devnet.proofs.liars.lie import StoreLie
from devnet.proofs.liars.telling import LiarsTeller, figures, last_line
from devnet.stage.report import write
from devnet.stage.scenario import chosen_from


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, the lies or the bad stores, the judgement."""
    options = _parse(arguments)
    tellings = sum(1 if isinstance(lie, StoreLie) else len(lie.told) for lie in options.lies)
    bar = ("units ended", options.units) if options.units else ("lies told", tellings)
    with LiarsTeller(*bar) as tell, lifecycle.ending_on_signals():
        net, doors = network.fresh(options.folder)
        try:
            for member in net.members:
                processes.start(lifecycle.node_process(net, member))
            asyncio.run(lifecycle.ready(net))
            run = asyncio.run(_run(net, doors, options, tell))
        finally:
            processes.stop(*lifecycle.all_processes(net))
    if isinstance(run, BadStoresRun):
        return _finish_bad_stores(run, tell.seconds)
    return _finish(run, tell.seconds)


async def _run(
    net: Devnet, doors: dict[str, int], options: argparse.Namespace, tell: LiarsTeller
) -> BadStoresRun | LiarsRun:
    """The lies, or the bad stores where units are wanted."""
    tell.line(f"{len(net.members)} validators in {net.folder}")
    if options.units:
        return await run_bad_stores(net, doors, options.units, tell)
    return await LyingCourse(net, doors, options.lies, tell)()


def _finish_bad_stores(run: BadStoresRun, seconds: float) -> int:
    for failure in (*run.bonds_touched, *run.failures):
        print(f"FAILED {failure}")
    path = write("liars-units", asdict(run))
    print(f"{run.last_line(seconds)}; {path}")
    return 1 if run.bonds_touched or run.failures else 0


def _finish(run: LiarsRun, seconds: float) -> int:
    count = figures(run.hearings, run.failures)
    for hearing in run.hearings:
        for miss in hearing.misses:
            print(f"MISSED {hearing.lie} to {hearing.program} ({hearing.who}): {miss}")
    for failure in (*run.bonds_touched, *run.failures):
        print(f"FAILED {failure}")
    unnoticed = [hearing for hearing in run.hearings if hearing.verdict == "unnoticed"]
    if unnoticed:
        named = ", ".join(sorted({hearing.lie for hearing in unnoticed}))
        print(f"unnoticed, since no proof of it exists: {named}")
    report = {
        **count,
        "seconds": round(seconds),
        "transfers_beside": run.transfers,
        "ended": run.ended,
        "bonds_touched": run.bonds_touched,
        "failures": run.failures,
        "unprovable": list(UNPROVABLE),
        "hearings": [as_json(hearing) for hearing in run.hearings],
    }
    path = write("liars", report)
    print(f"{last_line(count, len(run.bonds_touched), seconds)}; {path}")
    return 1 if count["missed"] or run.bonds_touched or run.failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.liars", description="Lie to every program of a live devnet.")
    named = chosen_from(LIES, "lie")
    parser.add_argument("--lies", type=named, default=list(LIES.values()), help="only these, with commas")
    parser.add_argument("--units", type=int, default=0, help="so many units beside bad stores, in place of the lies")
    parser.add_argument("--folder", type=Path, default=Path("out") / "liars", help="of the network; emptied first")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"liars: {failure}")
