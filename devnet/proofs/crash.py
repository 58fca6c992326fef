"""`python -m devnet.proofs.crash --kills N`: kill -9 on nodes of a live devnet under load; exit 1 if a bar fails.

The strikes are of six kinds, equally often, in an order that the printed seed draws: `devnet.proofs.crash_strikes`. The
bars: every node starts again from whatever was left of its files, comes back to the highest final block that was ever
seen, and votes again; all nodes have the same blocks (and so the same state roots) at the same heights, and no final
one is lost; no key signed two things that exclude each other (an observer on the network and each node's own record
say so); the chain goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring.final_blocks import Observed, blocks_of_all, lost_finals
from devnet.measuring.latency import measure
from devnet.measuring.load import Load, transfers
from devnet.measuring.observing import observer_of, seen_by_observer
from devnet.measuring.report import Report, write
from devnet.measuring.vote_records import missing_records
from devnet.proofs.crash_strikes import BACK_SECONDS, KINDS, Struck, deal
from genesis import dev_accounts
from genesis.parameters import CONSENSUS

VALIDATORS = 4
CALM_SECONDS = 20.0
GOES_ON_BLOCKS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """A calm phase that is measured, the kills, the judgement."""
    options = _parse(arguments)
    shutil.rmtree(options.folder, ignore_errors=True)
    net = layout.create(options.folder, VALIDATORS, any_ports=True)
    observer = observer_of(net)
    print(f"crash: {options.kills} strikes, seed {options.seed}", flush=True)
    started = time.monotonic()
    with network.running(net):
        try:
            processes.start(observer)
            report = asyncio.run(_storm(net, options.kills, random.Random(options.seed)))
        finally:
            processes.stop(observer)
    report |= _judge_signatures(net, report["height_after_strikes"])
    report["seconds"] = round(time.monotonic() - started)
    report["seed"] = options.seed
    report["failures"] = _failures(report)
    write("crash", report)
    for failure in report["failures"]:
        print(f"FAILED {failure}")
    print(_line(report))
    return 1 if report["failures"] else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.crash", description="Kill nodes of a live devnet.")
    parser.add_argument("--kills", type=int, default=100, help="how often")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="of times and victims")
    parser.add_argument("--folder", type=Path, default=Path("out") / "crash", help="emptied first")
    return parser.parse_args(arguments)


async def _storm(net: Devnet, kills: int, rng: random.Random) -> Report:
    """Load all the time; figures of the calm phase; then the strikes."""
    load = Load()
    struck = Struck(net, rng, Observed(), layout.genesis_hash(net))
    sending = asyncio.create_task(transfers(net, load, rng))
    watching = asyncio.create_task(struck.observed.watch(net))
    try:
        print(f"calm: {CALM_SECONDS:.0f} s under load", flush=True)
        calm = await measure(net, CONSENSUS["devnet"].slot_ms, CALM_SECONDS)
        print(f"calm: {calm.line()}", flush=True)
        strikes = await _strike(struck, deal(kills, rng))
    finally:
        for task in (sending, watching):
            task.cancel()
        await asyncio.gather(sending, watching, return_exceptions=True)
    return {
        "kills": kills,
        "kinds": {kind: Counter(strike["kind"] for strike in strikes["strikes"])[kind] for kind in KINDS},
        "latency": calm.figures(),
        "latency_line": calm.line(),
        "transfers_included": load.included,
        "transfers_retried": load.retried,
        "open_votes": struck.open_votes,
        **strikes,
        **await _judge_blocks(net, struck.observed, are_back=not strikes["not_started"]),
    }


async def _strike(struck: Struck, kinds: Sequence[str]) -> Report:
    """All strikes, until a node does not come back; then whether the chain goes on."""
    done: list[Report] = []
    not_started: list[str] = []
    height = 0
    try:
        await struck.copy_databases()
        for number, kind in enumerate(kinds, 1):
            victim = struck.rng.choice(struck.net.members)
            done.append({"kind": kind, "victim": victim.name})
            print(f"strike {number}/{len(kinds)}: {kind}, {victim.name}", flush=True)
            await struck.strike(kind, victim)
        await struck.all_back()
        height = await struck.height()
        await network.ready(struck.net, BACK_SECONDS, final=height + GOES_ON_BLOCKS)
    except DevnetError as failure:
        not_started.append(str(failure))
    return {"strikes": done, "not_started": not_started, "height_after_strikes": height}


async def _judge_blocks(net: Devnet, observed: Observed, *, are_back: bool) -> Report:
    """Compare the nodes, block by block, with each other and with what they ever called final."""
    if not are_back:
        return {"height": 0, "different_blocks": [], "lost_finals": observed.lost}
    print("comparing every block of every node", flush=True)
    height, different = await blocks_of_all(net)
    return {
        "height": height,
        "different_blocks": different,
        "lost_finals": observed.lost + await lost_finals(net, observed),
    }


def _judge_signatures(net: Devnet, above: int) -> Report:
    """What the observer saw: each vote is in its voter's own record, and who has voted for blocks above a height."""
    seen = seen_by_observer(net)
    votes = seen.pop("votes")
    awake = {voter for voter, _, _, _, height, _ in votes if height > above}
    names = [member.name for member in net.members]
    return {
        "observer": seen,
        "conflicting_signatures": seen["conflicts"],
        "unrecorded_votes": missing_records(net, votes),
        "silent": [name for name in names if dev_accounts.key(name, dev_accounts.SESSION).hex() not in awake],
    }


def _failures(report: Report) -> list[str]:
    """Every bar that does not hold."""
    bars = {
        "nodes that did not come back": report["not_started"],
        "final blocks lost": report["lost_finals"],
        "heights with different blocks": report["different_blocks"],
        "conflicting signatures": report["conflicting_signatures"],
        "votes that their voter did not record first": report["unrecorded_votes"],
        "validators that vote no more": report["silent"],
    }
    failures = [f"{name}: {found[:5]}" for name, found in bars.items() if found]
    if not report["observer"]["ballots"] or not report["transfers_included"]:
        failures.append("nothing was tested: the observer saw no votes, or no transfer got into a block")
    return failures


def _line(report: Report) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in report["kinds"].items())
    return (
        f"crash: {len(report['strikes'])} of {report['kills']} kills ({kinds}; seed {report['seed']}) in "
        f"{report['seconds']} s, {report['open_votes']} open votes on the disks of the killed, "
        f"{len(report['conflicting_signatures'])} conflicting signatures in "
        f"{report['observer']['ballots']} votes and {report['observer']['headers']} headers seen, "
        f"{len(report['not_started'])} nodes that did not come back, {len(report['lost_finals'])} final blocks lost, "
        f"{report['height']} blocks equal on {VALIDATORS} nodes, {report['transfers_included']} transfers; "
        f"{report['latency_line']}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"crash: {failure}")
