"""`python -m devnet.proofs.crash --kills N`: kill -9 on nodes of a live devnet under load; exit 1 if a bar fails.

The bars: no node lost a final block, all nodes have the same blocks (and so the same state roots) at the same heights,
no key signed two things that exclude each other (an observer on the network and each node's own record say so), every
node came back, and the chain goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import node_process
from devnet.launcher.processes import Process
from devnet.launcher.status import ask_all
from devnet.measuring.final_blocks import Observed, blocks_of_all, lost_finals
from devnet.measuring.latency import measure
from devnet.measuring.load import Load, transfers
from devnet.measuring.report import Report, write
from devnet.measuring.vote_records import missing_records
from genesis.parameters import CONSENSUS

VALIDATORS = 4
CALM_SECONDS = 20.0
ALIVE_SECONDS_MAX = 1.5
DOWN_SECONDS_MAX = 1.5
IMPATIENT = 0.2  # share of restarts after which the next kill does not wait until the node is back
BACK_SECONDS = 60.0
GOES_ON_BLOCKS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """A calm phase that is measured, the kills, the judgement."""
    options = _parse(arguments)
    shutil.rmtree(options.folder, ignore_errors=True)
    net = layout.create(options.folder, VALIDATORS, any_ports=True)
    observer = Process(
        "observer",
        "devnet.measuring.observer",
        (str(net.folder), str(net.folder / "seen.json")),
        net.folder / "observer",
    )
    started = time.monotonic()
    with network.running(net):
        try:
            processes.start(observer)
            report = asyncio.run(_storm(net, options.kills, random.Random(options.seed)))
        finally:
            processes.stop(observer)
    report |= _judge_signatures(net)
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
    """Load all the time; figures of the calm phase; then the kills."""
    load = Load()
    observed = Observed()
    slot_ms = CONSENSUS["devnet"].slot_ms
    sending = asyncio.create_task(transfers(net, load, rng))
    watching = asyncio.create_task(observed.watch(net))
    try:
        print(f"calm: {CALM_SECONDS:.0f} s under load", flush=True)
        calm = await measure(net, slot_ms, CALM_SECONDS)
        print(f"calm: {calm.line()}", flush=True)
        for number in range(1, kills + 1):
            await _kill_and_restart(net, rng, f"kill {number}/{kills}")
        await _all_back(net)
        goes_on = await _goes_on(net)
    finally:
        for task in (sending, watching):
            task.cancel()
        await asyncio.gather(sending, watching, return_exceptions=True)
    return {
        "kills": kills,
        "latency": calm.figures(),
        "latency_line": calm.line(),
        "transfers_included": load.included,
        "transfers_retried": load.retried,
        "goes_on": goes_on,
    } | await _judge_blocks(net, observed)


async def _kill_and_restart(net: Devnet, rng: random.Random, label: str) -> None:
    """Kill a node at a random instant, start it again at another."""
    await asyncio.sleep(rng.uniform(0, ALIVE_SECONDS_MAX))
    victim = node_process(net, rng.choice(net.members))
    if processes.running(victim) is not None:
        processes.kill(victim)
    await asyncio.sleep(rng.uniform(0, DOWN_SECONDS_MAX))
    processes.start(victim)
    print(f"{label}: {victim.label}", flush=True)
    if rng.random() >= IMPATIENT:
        await _all_back(net)


async def _all_back(net: Devnet) -> None:
    """Wait until every node is up and where the highest was when we began to wait.  Raises `DevnetError`."""
    await network.ready(net, BACK_SECONDS, final=max(status.final for status in await ask_all(net)))


async def _goes_on(net: Devnet) -> bool:
    """Whether every node sees some more final blocks after the last kill."""
    goal = max(status.final for status in await ask_all(net)) + GOES_ON_BLOCKS
    await network.ready(net, BACK_SECONDS, final=goal)
    return True


async def _judge_blocks(net: Devnet, observed: Observed) -> Report:
    """Compare the nodes, block by block, with each other and with what they ever called final."""
    print("comparing every block of every node", flush=True)
    height, different = await blocks_of_all(net)
    return {
        "height": height,
        "different_blocks": different,
        "lost_finals": observed.lost + await lost_finals(net, observed),
    }


def _judge_signatures(net: Devnet) -> Report:
    """What the observer saw, and whether each vote that it saw is in its voter's own record."""
    seen = json.loads((net.folder / "seen.json").read_text(encoding="utf-8"))
    votes = seen.pop("votes")
    return {
        "observer": seen,
        "conflicting_signatures": seen["conflicts"],
        "unrecorded_votes": missing_records(net, votes),
    }


def _failures(report: Report) -> list[str]:
    """Every bar that does not hold."""
    bars = {
        "final blocks lost": report["lost_finals"],
        "heights with different blocks": report["different_blocks"],
        "conflicting signatures": report["conflicting_signatures"],
        "votes that their voter did not record first": report["unrecorded_votes"],
    }
    failures = [f"{name}: {found[:5]}" for name, found in bars.items() if found]
    if not report["observer"]["ballots"] or not report["transfers_included"]:
        failures.append("nothing was tested: the observer saw no votes, or no transfer got into a block")
    return failures


def _line(report: Report) -> str:
    return (
        f"crash: {report['kills']} kills in {report['seconds']} s, {len(report['conflicting_signatures'])} conflicting "
        f"signatures in {report['observer']['ballots']} votes and {report['observer']['headers']} headers seen, "
        f"{len(report['lost_finals'])} final blocks lost, {report['height']} blocks equal on {VALIDATORS} nodes, "
        f"{report['transfers_included']} transfers; {report['latency_line']}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"crash: {failure}")
