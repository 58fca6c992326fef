"""`python -m devnet.proofs.elections`: six validators take turns on four seats, over 30 epochs of ten blocks.

Stake moves by `ogpu-wallet` alone. Every set on the chain is compared with a recount from the state before its
election. Two nodes are killed, one after the other. One is away for long, without a successor, so it goes to jail and
returns. One proposes twice in its last epoch, authors attach the nodes' evidence, and it is slashed after it has left.

The requirements: each set equals its recount. Each of the six enters and leaves at least twice. There are no
conflicting signatures but the planted ones. Every epoch becomes final. Jail and slash happen as planned, and all nodes
have the same blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from devnet.launcher import layout, processes, programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.lifecycle import node_process
from devnet.proofs.elections.recount import Watched, terms_of
from devnet.stage.measuring.final_blocks import blocks_of_all
from devnet.stage.network import ObservedStage, fresh_layout, observed_nodes
from devnet.stage.report import Report
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from runtime.cryptography.ss58 import encode as ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

SAVER = "Alice"
"""The delegator. It has a million, and may delegate to others and to itself."""
STEP = 100 * GRAINS_PER_OGPU
"""The lead in stake over all others of a validator that the next election must seat."""
KILLED_SECONDS = 5.0
EQUIVOCATING = "devnet.stage.cheating.equivocating_node"


@dataclass(slots=True)
class Director:
    """The actions on the chain. `told` records them for the report."""

    net: Devnet
    client: ChainClient
    watched: Watched
    tell: Callable[[str], None]
    told: dict[str, Any] = field(default_factory=dict)

    def member(self, stash: bytes) -> NodeLayout:
        """Return the node of a stash."""
        return next(each for each in self.net.members if dev_accounts.stash(each.name) == stash)

    def wallet(self, *words: str) -> str:
        """Run `ogpu-wallet` at the node that only follows."""
        url = ("--url", self.net.members[-1].rpc_url)
        return programs.run("ogpu-wallet", *url, *words, keyring=self.net.keyring)

    async def lift(self, stash: bytes) -> None:
        """Delegate enough stake to a waiting validator that the next election ranks it first."""
        at = await self.client.finalized()
        behind = {each: await self._behind(each, at) for each in self.stashes()}
        amount = max(behind.values()) + STEP - behind[stash]
        await asyncio.to_thread(
            self.wallet, "delegate", ss58(stash), _ogpu(amount), "--key", f"//{self._saver(stash)}", "--yes"
        )
        self.tell(f"epoch {self.watched.epoch}: {_ogpu(amount)} oGPU go behind {self.member(stash).name}")

    def waits_longest(self) -> bytes:
        """Return the validator that has waited longest for a seat."""
        newest = self.watched.sets[max(self.watched.sets)]
        waiting = [stash for stash in self.stashes() if stash not in newest]
        return min(waiting, key=lambda stash: (self._last_sat(stash), stash))

    async def kill_and_restart(self, stash: bytes) -> None:
        """Kill a node with SIGKILL, and restart it a few seconds later."""
        member = self.member(stash)
        await asyncio.to_thread(processes.kill, node_process(self.net, member))
        self.tell(f"epoch {self.watched.epoch}: {member.name} is killed with -9")
        await asyncio.sleep(KILLED_SECONDS)
        processes.start(node_process(self.net, member))

    async def chill(self, *stashes: bytes) -> None:
        """Withdraw the candidacy of these validators."""
        for stash in stashes:
            await asyncio.to_thread(self.wallet, "chill", "--key", f"//{self.member(stash).name}", "--yes")

    async def offer_again(self, *stashes: bytes) -> None:
        """Make these validators candidates again, with their former keys."""
        for stash in stashes:
            name = self.member(stash).name
            provider = f"0x{dev_accounts.key(name, dev_accounts.PROVIDER).hex()}"
            await asyncio.to_thread(self.wallet, "validate", f"//{name}", provider, "--key", f"//{name}", "--yes")

    def stop(self, stash: bytes) -> None:
        """Kill a node for good."""
        processes.kill(node_process(self.net, self.member(stash)))

    def start(self, stash: bytes) -> None:
        """Start a node again."""
        processes.start(node_process(self.net, self.member(stash)))

    async def unjail(self, stash: bytes) -> None:
        """Ask to be released from jail."""
        await asyncio.to_thread(self.wallet, "unjail", "--key", f"//{self.member(stash).name}", "--yes")

    def restart_equivocating(self, stash: bytes, epoch: int) -> None:
        """Restart a node that proposes twice in each of its slots from this epoch on."""
        process = node_process(self.net, self.member(stash))
        processes.stop(process)
        arguments = (*process.arguments, "--twice-from", str(epoch))
        processes.start(replace(process, module=EQUIVOCATING, arguments=arguments))

    def restart_honest(self, stash: bytes) -> None:
        """Restart the honest node."""
        process = node_process(self.net, self.member(stash))
        processes.stop(process)
        processes.start(process)

    async def is_convicted(self, stash: bytes) -> bool:
        """Return whether a validator is tombstoned: an author then had the evidence of nodes that saw both blocks."""
        at = await self.client.finalized()
        return await self.client.read(TrustStake.tombstones, stash, at=at) is not None

    async def least(self) -> bytes:
        """Return the elected validator with the least stake."""
        at = await self.client.finalized()
        elected = self.watched.sets[max(self.watched.sets)]
        behind = {stash: await self._behind(stash, at) for stash in elected}
        return min(elected, key=lambda stash: (behind[stash], stash))

    async def stake_of(self, stash: bytes) -> int:
        """Return the bond and the delegated stake of a validator."""
        return await self._behind(stash, await self.client.finalized())

    async def _behind(self, stash: bytes, at: bytes) -> int:
        pool = await self.client.read(TrustStake.pools, stash, at=at)
        bond: int = await self.client.read(TrustStake.bonds, stash, at=at)
        return bond + int(pool.stake.value)

    def stashes(self) -> list[bytes]:
        """Return the stashes of all validators, with and without a seat."""
        return sorted(dev_accounts.stash(member.name) for member in self.net.members if member.is_validator)

    def _last_sat(self, stash: bytes) -> int:
        return max((epoch for epoch, members in self.watched.sets.items() if stash in members), default=-1)

    def _saver(self, stash: bytes) -> str:
        """Return the delegator for this validator: no account delegates to itself."""
        return SAVER if self.member(stash).name != SAVER else "Bob"


def _ogpu(grains: int) -> str:
    whole, rest = divmod(grains, GRAINS_PER_OGPU)
    return f"{whole}.{rest:08d}".rstrip("0").rstrip(".")


MEMBERS, SEATS, EPOCHS = 6, 4, 30
WATCHER = "Watcher"
TERMS = 2
OFFENCE_TRIES = 3
GAP_SLOTS_MAX = 60
"""The most slots between two final blocks: a quarter of the weight is away for three epochs, and its rounds must time
out."""


@contextmanager
def six_on_four_seats(run: ProofRun) -> Iterator[ObservedStage]:
    """Run six validators, a node that only follows, and an observer."""
    net, _ = layout.add_full_node(fresh_layout(run, MEMBERS, seats=SEATS, is_fast=True), WATCHER, any_ports=True)
    with observed_nodes(run, net) as stage:
        yield stage


def elected(stage: ObservedStage) -> Report:
    """Play all scenes, and return the observations."""
    facts = asyncio.run(_play(stage))
    return facts | {"conflicts": stage.seen()["conflicts"]}


async def _play(stage: ObservedStage) -> Report:
    net, parameters = stage.net, CONSENSUS[layout.FAST]
    watched = Watched(parameters.epoch_blocks, parameters.slot_ms, SEATS)
    async with (
        await ChainClient.connect(net.members[-1].rpc_url) as client,
        await ChainClient.connect(net.members[-1].rpc_url) as other,
    ):
        following = asyncio.create_task(watched.follow(client))
        director = Director(net, other, watched, stage.tell.line)
        playing = asyncio.create_task(_scenes(director, max(EPOCHS, stage.options.epochs)))
        done, _ = await asyncio.wait((following, playing), return_when=asyncio.FIRST_COMPLETED)
        # Without the subscription, the scenes would wait for final blocks for ever.
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
    """Play the scenes, by epochs."""
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
    """Jail a validator: without candidates to succeed it, an absent one must keep its seat until it is jailed."""
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
    """Let the validator that leaves next propose twice in its last epoch, and be slashed after it has left.

    One time in twenty, a quarter of the weight has no slot in an epoch of ten blocks. Then the next one tries.
    """
    first = epoch
    while not await _offends(director, first) and first < epoch + 3 * OFFENCE_TRIES:
        first += 3
    director.tell(f"epoch {director.watched.epoch}: authors had the evidence, and {director.told['offender']} has left")
    await director.watched.until_epoch(first + 3)
    director.told["slashed"] -= await director.stake_of(dev_accounts.stash(director.told["offender"]))


async def _offends(director: Director, epoch: int) -> bool:
    """Let a validator leave at the end of the next epoch, and offend in it. Return True if it had a slot for that."""
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
    """Return the validator that entered last, because no election removes it soon."""
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


def figures(found: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    facts = found["turns"]
    entered, left = (sum(terms[name] for terms in facts["terms"].values()) for name in ("entered", "left"))
    edges, rest = facts["latency"]["edges"], facts["latency"]["elsewhere"]
    return (
        f"{facts['epochs']} epochs, {facts['recounts']} sets recounted, {len(facts['wrong_sets'])} wrong; {entered} "
        f"times somebody took a seat, {left} times one left; {facts['jailed']} jailed and back; {facts['offender']} "
        f"slashed after it left; {facts['height']} blocks equal on {MEMBERS + 1} nodes; final p50 {edges['p50_ms']} "
        f"ms, p99 {edges['p99_ms']} ms at edges, {rest['p50_ms']} and {rest['p99_ms']} ms elsewhere; longest gap "
        f"{facts['longest_gap_slots']} slots"
    )


PROOF = LiveProof(
    "elections",
    "The stake elects, on real nodes.",
    [Scenario("turns", "Stake moves, nodes are killed, jail, an offence", six_on_four_seats, elected, _failures)],
    figures,
    [ProofOption("--epochs", EPOCHS, "to watch in all; the scenes take 29")],
)

if __name__ == "__main__":
    run(PROOF)
