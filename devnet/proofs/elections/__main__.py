"""`python -m devnet.proofs.elections`: six validators take turns on four seats, over 30 epochs of ten blocks.

Stake moves by `ogpu-wallet` alone. Every set on the chain is compared with one that is reckoned anew from the state
before its election. On the way two nodes are killed, one after the other; one is away for so long, with nobody to take
its place, that it goes to jail, and comes back; one proposes twice in its last epoch, authors attach what nodes saw of
it, and it is slashed after it has left. Bars: each set equals its recount; each of the six enters and leaves twice at
least; no conflicting signatures but the planted ones; every epoch becomes final; jail and slash happened as said; all
nodes have the same blocks.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring import report
from devnet.measuring.final_blocks import blocks_of_all
from devnet.measuring.observing import observer_of, seen_by_observer
from devnet.measuring.report import Report
from devnet.proofs.elections.scenes import Director
from devnet.proofs.elections.terms import terms_of
from devnet.proofs.elections.watching import Watched
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

FOLDER = report.FOLDER / "elections"
MEMBERS, SEATS, EPOCHS = 6, 4, 30
WATCHER = "Watcher"
TERMS = 2
OFFENCE_TRIES = 3
GAP_SLOTS_MAX = 60
"""Between two final blocks: a quarter of the weight is away for three epochs, and its rounds wait for it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if every bar held."""
    parser = argparse.ArgumentParser("devnet.proofs.elections", description="The stake elects, on real nodes.")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="to watch in all; the scenes take 29")
    options = parser.parse_args(arguments)
    shutil.rmtree(FOLDER, ignore_errors=True)
    net = layout.create(FOLDER, MEMBERS, any_ports=True, seats=SEATS, is_fast=True)
    net, _ = layout.add_full_node(net, WATCHER, any_ports=True)
    observer = observer_of(net)
    started = time.monotonic()
    with network.running(net):
        try:
            processes.start(observer)
            facts = asyncio.run(_play(net, max(EPOCHS, options.epochs)))
        finally:
            processes.stop(observer)
    facts["conflicts"] = seen_by_observer(net)["conflicts"]
    facts["seconds"] = round(time.monotonic() - started)
    facts["failures"] = _failures(facts)
    report.write("elections", facts)
    for failure in facts["failures"]:
        print(f"FAILED {failure}")
    print(_line(facts))
    return 1 if facts["failures"] else 0


async def _play(net: Devnet, epochs: int) -> Report:
    parameters = CONSENSUS[layout.FAST]
    watched = Watched(parameters.epoch_blocks, parameters.slot_ms, SEATS)
    async with (
        await ChainClient.connect(net.members[-1].rpc_url) as client,
        await ChainClient.connect(net.members[-1].rpc_url) as other,
    ):
        following = asyncio.create_task(watched.follow(client))
        director = Director(net, other, watched, lambda text: print(text, flush=True))
        playing = asyncio.create_task(_scenes(director, epochs))
        done, _ = await asyncio.wait((following, playing), return_when=asyncio.FIRST_COMPLETED)
        if following in done and playing not in done:
            playing.cancel()
            following.result()
            raise DevnetError("the node that is watched ended its subscription")
        playing.result()
        following.cancel()
        height, different = await blocks_of_all(net)
        names = {dev_accounts.stash(member.name): member.name for member in net.members if member.is_validator}
        return {
            "epochs": watched.epoch,
            "height": height,
            "different_blocks": different,
            "recounts": watched.recounts,
            "wrong_sets": watched.wrong,
            "terms": {
                name: {"entered": terms.entered, "left": terms.left}
                for stash, name in names.items()
                for terms in (terms_of(stash, watched.sets),)
            },
            "sets": {epoch: [names[stash] for stash in members] for epoch, members in sorted(watched.sets.items())},
            "latency": watched.latency(),
            "longest_gap_slots": watched.longest_gap_ms // watched.slot_ms,
            "jailed_by_recount": sorted(names[stash] for stash in watched.jailed),
            **director.told,
        }


async def _scenes(director: Director, epochs: int) -> None:
    """The course, by epochs."""
    watched = director.watched
    for epoch in (1, 3, 5, 7, 9, 11):
        await watched.until_epoch(epoch)
        await director.lift(director.waits_longest())
        if epoch in {5, 9}:
            sitting = sorted(watched.sitting())
            await director.kill_and_restart(sitting[0] if epoch == 5 else sitting[-1])
    await _jail(director, 13)
    for epoch in range(19, 24):
        await watched.until_epoch(epoch)
        await director.lift(director.waits_longest())
    await _offence(director, 24)
    await watched.until_epoch(epochs)


async def _jail(director: Director, epoch: int) -> None:
    """Who waits gives up, so nobody can take the place of one who goes away: it must stay, and goes to jail."""
    watched = director.watched
    await watched.until_epoch(epoch)
    waiting = [stash for stash in director.stashes() if stash not in watched.sets[max(watched.sets)]]
    await director.chill(*waiting)
    away = _last_ranked_up(director)
    await watched.until_epoch(epoch + 1)
    director.stop(away)
    name = director.member(away).name
    director.tell(f"epoch {watched.epoch}: {name} goes away, and nobody offers to take its place")
    await watched.until(lambda: away in watched.jailed)
    at = await director.client.finalized()
    director.told["jailed"] = name
    director.told["jailed_on_chain"] = await director.client.read(TrustStake.jailed, away, at=at) is not None
    director.start(away)
    await director.offer_again(*waiting)
    await director.unjail(away)
    director.tell(f"epoch {watched.epoch}: {name} was in jail, is back, and asks to be let out")


async def _offence(director: Director, epoch: int) -> None:
    """Whoever the next change puts out proposes twice in its last epoch, and is slashed when it has left.

    In an epoch of ten blocks a quarter of the weight may have no slot, one time in twenty: then the next one tries.
    """
    first = epoch
    while not await _offends(director, first) and first < epoch + 3 * OFFENCE_TRIES:
        first += 3
    director.tell(f"epoch {director.watched.epoch}: authors had the evidence, and {director.told['offender']} has left")
    await director.watched.until_epoch(first + 3)
    director.told["slashed"] -= await director.stake_of(dev_accounts.stash(director.told["offender"]))


async def _offends(director: Director, epoch: int) -> bool:
    """Let somebody leave at the end of the next epoch, and offend in it; whether it had a slot to do so."""
    watched = director.watched
    await watched.until_epoch(epoch)
    offender = await director.least()
    name = director.member(offender).name
    director.restart_equivocating(offender, epoch + 1)
    await director.lift(director.waits_longest())
    await watched.until_epoch(epoch + 1)
    director.tell(f"epoch {watched.epoch}: {name}, in its last epoch, proposes twice where it has a slot")
    had = await director.stake_of(offender)
    await watched.until_epoch(epoch + 2)
    director.told |= {"offender": name, "had_left": offender not in watched.sitting(), "slashed": had}
    is_convicted = await director.is_convicted(offender)
    if not is_convicted:
        director.restart_honest(offender)
    return is_convicted


def _last_ranked_up(director: Director) -> bytes:
    """Who has entered last: no election puts it out soon."""
    sets = director.watched.sets
    newest = sets[max(sets)]
    return max(newest, key=lambda stash: (_since(sets, stash), stash))


def _since(sets: dict[int, dict[bytes, int]], stash: bytes) -> int:
    epoch = max(sets)
    while epoch >= 0 and stash in sets[epoch]:
        epoch -= 1
    return epoch + 1


def _failures(facts: Report) -> list[str]:
    planted = facts["offender"] and dev_accounts.stash(facts["offender"]).hex()
    conflicts = [text for text in facts["conflicts"] if planted not in text]
    few = [name for name, terms in facts["terms"].items() if min(terms["entered"], terms["left"]) < TERMS]
    bars: dict[str, Any] = {
        "sets that are not as reckoned": facts["wrong_sets"],
        "members that did not enter and leave twice": few,
        "conflicting signatures": conflicts,
        "heights with different blocks": facts["different_blocks"],
        "epochs without finality": [] if facts["longest_gap_slots"] <= GAP_SLOTS_MAX else [facts["longest_gap_slots"]],
        "recounts": [] if facts["recounts"] >= EPOCHS - 1 else [facts["recounts"]],
        "jail": [] if facts["jailed_on_chain"] and facts["jailed"] in facts["jailed_by_recount"] else [facts["jailed"]],
        "the slash after it left": [] if facts["had_left"] and facts["slashed"] > 0 else [facts["slashed"]],
        "the planted offence was not seen": [] if len(conflicts) < len(facts["conflicts"]) else ["none"],
    }
    return [f"{name}: {found[:5]}" for name, found in bars.items() if found]


def _line(facts: Report) -> str:
    entered = sum(terms["entered"] for terms in facts["terms"].values())
    left = sum(terms["left"] for terms in facts["terms"].values())
    edges, rest = facts["latency"]["edges"], facts["latency"]["elsewhere"]
    return (
        f"elections: {facts['epochs']} epochs, {facts['recounts']} sets recounted, {len(facts['wrong_sets'])} wrong; "
        f"{entered} times somebody took a seat, {left} times one left; {facts['jailed']} jailed and back; "
        f"{facts['offender']} slashed after it left; {facts['height']} blocks equal on {MEMBERS + 1} nodes; final p50 "
        f"{edges['p50_ms']} ms, p99 {edges['p99_ms']} ms at edges, {rest['p50_ms']} and {rest['p99_ms']} ms elsewhere; "
        f"longest gap {facts['longest_gap_slots']} slots; {len(facts['failures'])} failures; {facts['seconds']} s"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"elections: {failure}")
