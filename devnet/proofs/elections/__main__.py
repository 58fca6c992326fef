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
from devnet.proofs.elections.recount import ObservedChain, tenure_of
from devnet.stage.measuring.final_blocks import compare_final_blocks
from devnet.stage.network import ObservedStage, fresh_layout, observed_nodes
from devnet.stage.report import Report
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS
from runtime.cryptography.ss58 import encode as ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

DELEGATOR = "Alice"
"""The delegator. It has a million, and may delegate to others and to itself."""
LEAD_GRAINS = 100 * GRAINS_PER_OGPU
"""The lead in stake over all others of a validator that the next election must seat."""
KILLED_SECONDS = 5.0
EQUIVOCATING = "devnet.stage.cheating.equivocating_node"


@dataclass(slots=True)
class Director:
    """The actions on the chain. `observations` records them for the report."""

    devnet: Devnet
    chain_client: ChainClient
    observed_chain: ObservedChain
    narrator: Callable[[str], None]
    observations: dict[str, Any] = field(default_factory=dict)

    def member(self, validator: bytes) -> NodeLayout:
        """Return the node of a stash."""
        return next(member for member in self.devnet.members if dev_accounts.stash(member.name) == validator)

    def wallet(self, *words: str) -> str:
        """Run `ogpu-wallet` at the node that only follows."""
        url = ("--url", self.devnet.members[-1].rpc_url)
        return programs.run("ogpu-wallet", *url, *words, keyring=self.devnet.keyring)

    async def lift_to_first(self, validator: bytes) -> None:
        """Delegate enough stake to a waiting validator that the next election ranks it first."""
        final_block = await self.chain_client.finalized()
        stake_by_validator = {each: await self._stake_behind(each, final_block) for each in self.stashes()}
        delegated_grains = max(stake_by_validator.values()) + LEAD_GRAINS - stake_by_validator[validator]
        await asyncio.to_thread(
            self.wallet,
            "delegate",
            ss58(validator),
            _ogpu_text(delegated_grains),
            "--key",
            f"//{self._delegator_for(validator)}",
            "--yes",
        )
        self.narrator(
            f"epoch {self.observed_chain.epoch}: {_ogpu_text(delegated_grains)} oGPU go behind "
            f"{self.member(validator).name}"
        )

    def waits_longest(self) -> bytes:
        """Return the validator that has waited longest for a seat."""
        newest = self.observed_chain.sets_by_epoch[max(self.observed_chain.sets_by_epoch)]
        waiting = [validator for validator in self.stashes() if validator not in newest]
        return min(waiting, key=lambda validator: (self._last_sat(validator), validator))

    async def kill_and_restart(self, validator: bytes) -> None:
        """Kill a node with SIGKILL, and restart it a few seconds later."""
        member = self.member(validator)
        await asyncio.to_thread(processes.kill, node_process(self.devnet, member))
        self.narrator(f"epoch {self.observed_chain.epoch}: {member.name} is killed with -9")
        await asyncio.sleep(KILLED_SECONDS)
        processes.start(node_process(self.devnet, member))

    async def withdraw_candidacy(self, *stashes: bytes) -> None:
        """Withdraw the candidacy of these validators."""
        for validator in stashes:
            await asyncio.to_thread(self.wallet, "chill", "--key", f"//{self.member(validator).name}", "--yes")

    async def offer_again(self, *stashes: bytes) -> None:
        """Make these validators candidates again, with their former keys."""
        for validator in stashes:
            name = self.member(validator).name
            provider_key_text = f"0x{dev_accounts.key(name, dev_accounts.PROVIDER).hex()}"
            await asyncio.to_thread(
                self.wallet, "validate", f"//{name}", provider_key_text, "--key", f"//{name}", "--yes"
            )

    def stop_node(self, validator: bytes) -> None:
        """Kill a node for good."""
        processes.kill(node_process(self.devnet, self.member(validator)))

    def start_node(self, validator: bytes) -> None:
        """Start a node again."""
        processes.start(node_process(self.devnet, self.member(validator)))

    async def unjail(self, validator: bytes) -> None:
        """Ask to be released from jail."""
        await asyncio.to_thread(self.wallet, "unjail", "--key", f"//{self.member(validator).name}", "--yes")

    def restart_equivocating(self, validator: bytes, epoch: int) -> None:
        """Restart a node that proposes twice in each of its slots from this epoch on."""
        node = node_process(self.devnet, self.member(validator))
        processes.stop(node)
        arguments = (*node.arguments, "--twice-from", str(epoch))
        processes.start(replace(node, module=EQUIVOCATING, arguments=arguments))

    def restart_honest(self, validator: bytes) -> None:
        """Restart the honest node."""
        node = node_process(self.devnet, self.member(validator))
        processes.stop(node)
        processes.start(node)

    async def is_convicted(self, validator: bytes) -> bool:
        """Return whether a validator is tombstoned: an author then had the evidence of nodes that saw both blocks."""
        final_block = await self.chain_client.finalized()
        return await self.chain_client.read(TrustStake.tombstones, validator, at=final_block) is not None

    async def weakest_elected(self) -> bytes:
        """Return the elected validator with the least stake."""
        final_block = await self.chain_client.finalized()
        elected = self.observed_chain.sets_by_epoch[max(self.observed_chain.sets_by_epoch)]
        stake_by_validator = {validator: await self._stake_behind(validator, final_block) for validator in elected}
        return min(elected, key=lambda validator: (stake_by_validator[validator], validator))

    async def stake_of(self, validator: bytes) -> int:
        """Return the bond and the delegated stake of a validator."""
        return await self._stake_behind(validator, await self.chain_client.finalized())

    async def _stake_behind(self, validator: bytes, final_block: bytes) -> int:
        pool = await self.chain_client.read(TrustStake.pools, validator, at=final_block)
        bond: int = await self.chain_client.read(TrustStake.bonds, validator, at=final_block)
        return bond + int(pool.stake.value)

    def stashes(self) -> list[bytes]:
        """Return the stashes of all validators, with and without a seat."""
        return sorted(dev_accounts.stash(member.name) for member in self.devnet.members if member.is_validator)

    def _last_sat(self, validator: bytes) -> int:
        return max(
            (epoch for epoch, seated in self.observed_chain.sets_by_epoch.items() if validator in seated), default=-1
        )

    def _delegator_for(self, validator: bytes) -> str:
        """Return the delegator for this validator: no account delegates to itself."""
        return DELEGATOR if self.member(validator).name != DELEGATOR else "Bob"


def _ogpu_text(grains: int) -> str:
    whole_ogpu, fraction_grains = divmod(grains, GRAINS_PER_OGPU)
    return f"{whole_ogpu}.{fraction_grains:08d}".rstrip("0").rstrip(".")


VALIDATOR_COUNT, SEAT_COUNT, EPOCH_COUNT = 6, 4, 30
WATCHER = "Watcher"
TURNS_MIN = 2
OFFENCE_TRIES = 3
# The most slots between two final blocks: a quarter of the weight is away for three epochs, and its rounds must time
# out.
GAP_SLOTS_MAX = 60


@contextmanager
def six_on_four_seats(proof_run: ProofRun) -> Iterator[ObservedStage]:
    """Run six validators, a node that only follows, and an observer."""
    devnet, _ = layout.add_full_node(
        fresh_layout(proof_run, VALIDATOR_COUNT, seats=SEAT_COUNT, is_fast=True), WATCHER, any_ports=True
    )
    with observed_nodes(proof_run, devnet) as stage:
        yield stage


def play_and_observe(stage: ObservedStage) -> Report:
    """Play all scenes, and return the observations."""
    facts = asyncio.run(_play_scenes(stage))
    return facts | {"conflicts": stage.stop_observer()["conflicts"]}


async def _play_scenes(stage: ObservedStage) -> Report:
    devnet, parameters = stage.devnet, CONSENSUS[layout.FAST]
    observed_chain = ObservedChain(parameters.epoch_blocks, parameters.slot_ms, SEAT_COUNT)
    async with (
        await ChainClient.connect(devnet.members[-1].rpc_url) as chain,
        await ChainClient.connect(devnet.members[-1].rpc_url) as action_client,
    ):
        # One client follows and another one acts, so that a slow action misses no final block.
        following_task = asyncio.create_task(observed_chain.follow(chain))
        director = Director(devnet, action_client, observed_chain, stage.narrator.line)
        playing_task = asyncio.create_task(_run_scenes(director, max(EPOCH_COUNT, stage.options.epochs)))
        done_tasks, _ = await asyncio.wait((following_task, playing_task), return_when=asyncio.FIRST_COMPLETED)
        # Without the subscription, the scenes would wait for final blocks for ever.
        if following_task in done_tasks and playing_task not in done_tasks:
            playing_task.cancel()
            following_task.result()
            raise DevnetError("the node that is watched ended its subscription")
        playing_task.result()
        following_task.cancel()
        final_height, different_heights = await compare_final_blocks(devnet)
        names_by_validator = {
            dev_accounts.stash(member.name): member.name for member in devnet.members if member.is_validator
        }
        return {
            "epochs": observed_chain.epoch,
            "height": final_height,
            "different_blocks": different_heights,
            "recounts": observed_chain.recounts,
            "wrong_sets": observed_chain.wrong_sets,
            "terms": {
                name: {"entered": tenure.entries, "left": tenure.left}
                for validator, name in names_by_validator.items()
                for tenure in (tenure_of(validator, observed_chain.sets_by_epoch),)
            },
            "sets": {
                epoch: [names_by_validator[validator] for validator in seated]
                for epoch, seated in sorted(observed_chain.sets_by_epoch.items())
            },
            "latency": observed_chain.latency(),
            "longest_gap_slots": observed_chain.longest_gap_ms // observed_chain.slot_ms,
            "jailed_by_recount": sorted(names_by_validator[validator] for validator in observed_chain.jailed),
            **director.observations,
        }


async def _run_scenes(director: Director, epoch_count: int) -> None:
    """Play the scenes, by epochs."""
    observed_chain = director.observed_chain
    # An election takes effect an epoch later, so a move of stake every other epoch shows alone.
    for epoch in (1, 3, 5, 7, 9, 11):
        await observed_chain.wait_for_epoch(epoch)
        await director.lift_to_first(director.waits_longest())
        if epoch in {5, 9}:
            seated = sorted(observed_chain.seated_in())
            await director.kill_and_restart(seated[0] if epoch == 5 else seated[-1])
    await _play_jail(director, 13)
    for epoch in range(19, 24):
        await observed_chain.wait_for_epoch(epoch)
        await director.lift_to_first(director.waits_longest())
    await _play_offence(director, 24)
    await observed_chain.wait_for_epoch(epoch_count)


async def _play_jail(director: Director, epoch: int) -> None:
    """Jail a validator: without candidates to succeed it, an absent one must keep its seat until it is jailed."""
    observed_chain = director.observed_chain
    await observed_chain.wait_for_epoch(epoch)
    waiting = [
        validator
        for validator in director.stashes()
        if validator not in observed_chain.sets_by_epoch[max(observed_chain.sets_by_epoch)]
    ]
    # Without a successor, the absent validator keeps its seat until it is silent for two epochs.
    await director.withdraw_candidacy(*waiting)
    absent_validator = _last_ranked_up(director)
    await observed_chain.wait_for_epoch(epoch + 1)
    director.stop_node(absent_validator)
    name = director.member(absent_validator).name
    director.narrator(f"epoch {observed_chain.epoch}: {name} goes away, and no candidate can take its place")
    await observed_chain.wait_until(lambda: absent_validator in observed_chain.jailed)
    final_block = await director.chain_client.finalized()
    director.observations["jailed"] = name
    director.observations["jailed_on_chain"] = (
        await director.chain_client.read(TrustStake.jailed, absent_validator, at=final_block) is not None
    )
    director.start_node(absent_validator)
    await director.offer_again(*waiting)
    await director.unjail(absent_validator)
    director.narrator(f"epoch {observed_chain.epoch}: {name} was in jail, is back, and asks to be let out")


async def _play_offence(director: Director, epoch: int) -> None:
    """Let the validator that leaves next propose twice in its last epoch, and be slashed after it has left.

    One time in twenty, a quarter of the weight has no slot in an epoch of ten blocks. Then the next one tries.
    """
    last_epoch = epoch
    while not await _offends(director, last_epoch) and last_epoch < epoch + 3 * OFFENCE_TRIES:
        last_epoch += 3
    director.narrator(
        f"epoch {director.observed_chain.epoch}: authors had the evidence, and {director.observations['offender']} "
        "has left"
    )
    await director.observed_chain.wait_for_epoch(last_epoch + 3)
    director.observations["slashed"] -= await director.stake_of(dev_accounts.stash(director.observations["offender"]))


async def _offends(director: Director, epoch: int) -> bool:
    """Let a validator leave at the end of the next epoch, and offend in it. Return True if it had a slot for that."""
    observed_chain = director.observed_chain
    await observed_chain.wait_for_epoch(epoch)
    offender = await director.weakest_elected()
    name = director.member(offender).name
    # The evidence must still convict it after it has left the set.
    director.restart_equivocating(offender, epoch + 1)
    await director.lift_to_first(director.waits_longest())
    await observed_chain.wait_for_epoch(epoch + 1)
    director.narrator(f"epoch {observed_chain.epoch}: {name}, in its last epoch, proposes twice where it has a slot")
    stake_before = await director.stake_of(offender)
    await observed_chain.wait_for_epoch(epoch + 2)
    director.observations |= {
        "offender": name,
        "had_left": offender not in observed_chain.seated_in(),
        "slashed": stake_before,
    }
    is_convicted = await director.is_convicted(offender)
    if not is_convicted:
        director.restart_honest(offender)
    return is_convicted


def _last_ranked_up(director: Director) -> bytes:
    """Return the validator that entered last, because no election removes it soon."""
    sets_by_epoch = director.observed_chain.sets_by_epoch
    newest = sets_by_epoch[max(sets_by_epoch)]
    return max(newest, key=lambda validator: (_seated_since(sets_by_epoch, validator), validator))


def _seated_since(sets_by_epoch: dict[int, dict[bytes, int]], validator: bytes) -> int:
    earliest_epoch = max(sets_by_epoch)
    while earliest_epoch >= 0 and validator in sets_by_epoch[earliest_epoch]:
        earliest_epoch -= 1
    return earliest_epoch + 1


def _failures(facts: Report) -> list[str]:
    planted_key = facts["offender"] and dev_accounts.stash(facts["offender"]).hex()
    conflicts = [conflict for conflict in facts["conflicts"] if planted_key not in conflict]
    rarely_moved = [
        requirement
        for requirement, tenure in facts["terms"].items()
        if min(tenure["entered"], tenure["left"]) < TURNS_MIN
    ]
    requirements: dict[str, Any] = {
        "sets that are not as reckoned": facts["wrong_sets"],
        "members that did not enter and leave twice": rarely_moved,
        "conflicting signatures": conflicts,
        "heights with different blocks": facts["different_blocks"],
        "epochs without finality": [] if facts["longest_gap_slots"] <= GAP_SLOTS_MAX else [facts["longest_gap_slots"]],
        "recounts": [] if facts["recounts"] >= EPOCH_COUNT - 1 else [facts["recounts"]],
        "jail": [] if facts["jailed_on_chain"] and facts["jailed"] in facts["jailed_by_recount"] else [facts["jailed"]],
        "the slash after it left": [] if facts["had_left"] and facts["slashed"] > 0 else [facts["slashed"]],
        "the planted offence was not seen": [] if len(conflicts) < len(facts["conflicts"]) else ["none"],
    }
    return [f"{requirement}: {violations[:5]}" for requirement, violations in requirements.items() if violations]


def figures(facts_by_scenario: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    facts = facts_by_scenario["turns"]
    entered, left = (
        sum(tenure[tenure_field] for tenure in facts["terms"].values()) for tenure_field in ("entered", "left")
    )
    edge_latency, elsewhere_latency = facts["latency"]["edges"], facts["latency"]["elsewhere"]
    return (
        f"{facts['epochs']} epochs, {facts['recounts']} sets recounted, {len(facts['wrong_sets'])} wrong; {entered} "
        f"seats taken, {left} left; {facts['jailed']} jailed and back; {facts['offender']} slashed after it left; "
        f"{facts['height']} blocks equal on {VALIDATOR_COUNT + 1} nodes; final p50 {edge_latency['p50_ms']} ms, "
        f"p99 {edge_latency['p99_ms']} ms at edges, {elsewhere_latency['p50_ms']} and "
        f"{elsewhere_latency['p99_ms']} ms elsewhere; longest gap {facts['longest_gap_slots']} slots"
    )


PROOF = LiveProof(
    "elections",
    "The stake elects, on real nodes.",
    [
        Scenario(
            "turns", "Stake moves, nodes are killed, jail, an offence", six_on_four_seats, play_and_observe, _failures
        )
    ],
    figures,
    [ProofOption("--epochs", EPOCH_COUNT, "to watch in all; the scenes take 29")],
)

if __name__ == "__main__":
    run(PROOF)
