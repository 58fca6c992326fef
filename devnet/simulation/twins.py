"""`python -m devnet.simulation.twins`: one key of four has two gadgets; exit status 1 if a requirement fails.

After Twins (Bano and others, OPODIS 2021). A scenario defines for each phase the reach of each node, the lost messages
and the time-outs. It also defines the leader of each round, and the next set. The enumeration covers the edges x the
partitions of the first two phases x the leaders of the first two rounds. The scenario's number seeds the rest. Finally
all nodes reach each other.

Two unmodified gadgets never propose on a parent without a justification, and never vote for everything at once. So in
half of all scenarios a third, dishonest signer with the doubled key does both. In half of all phases, all messages in
flight are lost once a node knows that a block is final. That node is then isolated for a phase, so the lock has to
preserve its knowledge.

The requirements: no two honest gadgets finalise different blocks, no evidence names an honest key, and each epoch ends
after healing.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random

from consensus.events import BlockFacts
from consensus.signstate import record_payload
from consensus.validators import Epoch, Validator, ValidatorSet
from consensus.wire import Message, Propose, Vote
from devnet.simulation.gadgets import GENESIS, LAST_HEIGHT, PARAMETERS, BareNode
from devnet.simulation.keys import Signer, fake_signer
from runtime.blocks.votes import NO_BLOCK, Ballot, BallotKind, Proposal, SignedBallot, SignedProposal

DOUBLED_KEYS = (0, 4)  # keys with two gadgets; no set contains both
EDGES_BY_NAME = {
    "the same": (0, 1, 2, 3),
    "the doubled key leaves": (1, 2, 3, 5),
    "another one comes doubled": (1, 2, 3, 4),
    "half of them": (0, 1, 5, 6),
    "no member in common": (4, 5, 6, 7),
}
GROUPS_MAX = 3
PHASE_COUNT = 7
LOSS_PERCENT = (0, 0, 30, 60)
LEADERS_NAMED = 6
HEALING_PHASES_MAX = 40
PHASE_MS = 2 * PARAMETERS.resend_ms
TIMEOUT_MS = PARAMETERS.round_timeout(PARAMETERS.timeout_doublings_max)
SCENARIO_STRIDE = 7_919  # coprime to the number of scenarios, so consecutive numbers spread over all of them


@lru_cache(maxsize=1)
def partitions() -> tuple[tuple[int, ...], ...]:
    """Return the partitions of the first set's five gadgets into at most GROUPS_MAX groups."""
    partitions_found = []
    for group_by_node in product(range(GROUPS_MAX), repeat=5):
        first_indices = [group_by_node.index(node_group) for node_group in sorted(set(group_by_node))]
        if first_indices == sorted(first_indices) and set(group_by_node) == set(range(len(first_indices))):
            partitions_found.append(group_by_node)
    return tuple(partitions_found)


def count_scenarios() -> int:
    """Return the number of enumerated scenarios. Each has randomly drawn later phases."""
    return len(EDGES_BY_NAME) * len(partitions()) ** 2 * 4**2


@dataclass(frozen=True)
class TwinsOutcome:
    """The outcome of one scenario."""

    number: int
    failures: tuple[str, ...]
    accused: int
    height: int
    messages: int


class TwinsRun:
    """One scenario."""

    def __init__(self, number: int) -> None:
        """Decode the scenario's number into edge, partitions and leaders."""
        self.number = number
        partition_count = len(partitions())
        number, edge_index = divmod(number, len(EDGES_BY_NAME))
        number, first_partition = divmod(number, partition_count)
        number, second_partition = divmod(number, partition_count)
        first_leaders = divmod(number, 4)
        self._random_source = Random(f"twins/{self.number}")
        self._now_ms = 1_000_000
        self._message_count = 0
        self._message_queue: list[tuple[BareNode, BareNode, Message]] = []
        self._planned_partitions = [partitions()[first_partition], partitions()[second_partition]]
        next_keys = list(EDGES_BY_NAME.values())[edge_index]
        epochs = {0: _epoch_of_keys(0, (0, 1, 2, 3)), 1: _epoch_of_keys(1, next_keys)}
        drawn_leaders = [[self._random_source.randrange(4) for _ in range(LEADERS_NAMED)] for _ in epochs]
        drawn_leaders[0][:2] = first_leaders
        node_keys = [
            0,
            0,
            1,
            2,
            3,
            *(
                key_number
                for key_number in next_keys
                if key_number > 3
                for _ in range(1 + (key_number in DOUBLED_KEYS))
            ),
        ]
        # The two gadgets of a doubled key prefer different sides of each fork.
        self.nodes = [
            BareNode(
                key_number,
                epochs,
                drawn_leaders,
                self._queue_message,
                fork_preference=node_index if key_number in DOUBLED_KEYS else self._random_source.randrange(2),
            )
            for node_index, key_number in enumerate(node_keys)
        ]
        self._group_by_node: Sequence[int] = [0] * len(node_keys)
        self._loss_percent = 0
        self._is_cut_at_final = False
        self._isolated_nodes: set[int] = set()  # nodes that know of a final block and are isolated
        self._has_third_hand = self._random_source.random() < 0.5

    def play(self) -> TwinsOutcome:
        """Play all phases, then heal."""
        for phase in range(PHASE_COUNT):
            self._group_by_node = self._partition(phase)
            self._loss_percent = self._random_source.choice(LOSS_PERCENT)
            self._is_cut_at_final = self._random_source.random() < 0.5
            self._play_phase(phase + 1, is_long=self._random_source.random() < 0.5)
        self._group_by_node = [0] * len(self.nodes)
        self._loss_percent, self._is_cut_at_final = 0, False
        phase_number = PHASE_COUNT
        while min(node.chain.tree.final.height for node in self.nodes) < LAST_HEIGHT:
            phase_number += 1
            if phase_number > PHASE_COUNT + HEALING_PHASES_MAX:
                break
            self._play_phase(phase_number, is_long=True)
        return TwinsOutcome(
            self.number, tuple(self._failures()), len(set().union(*(node.accused for node in self.nodes))),
            min(node.chain.tree.final.height for node in self.nodes), self._message_count,
        )  # fmt: skip

    def _partition(self, phase: int) -> list[int]:
        group_by_node = (
            self._planned_partitions[phase]
            if phase < len(self._planned_partitions)
            else self._random_source.choice(partitions())
        )
        further_groups = [self._random_source.randrange(GROUPS_MAX) for _ in self.nodes[len(group_by_node) :]]
        isolated_nodes, self._isolated_nodes = self._isolated_nodes, set()
        return [
            GROUPS_MAX + node_index if node_index in isolated_nodes else node_group
            for node_index, node_group in enumerate([*group_by_node, *further_groups])
        ]

    def _play_phase(self, height: int, *, is_long: bool) -> None:
        """Play a phase: add at most one block, and resend votes. In a long phase, rounds time out."""
        for bare_node in self.nodes:
            bare_node.grow(min(height, LAST_HEIGHT, PARAMETERS.boundary(bare_node.gadget.members.epoch)))
            if bare_node.key not in DOUBLED_KEYS:
                bare_node.fork_preference = self._random_source.randrange(2)
        for step_ms in (PHASE_MS, TIMEOUT_MS) if is_long else (PHASE_MS,):
            self._now_ms += step_ms
            for bare_node in self.nodes:
                bare_node.advance(self._now_ms)
            if self._has_third_hand:
                self._queue_forgeries()
            self._deliver_all()

    def _queue_forgeries(self) -> None:
        """Send each group statements of the doubled key that suit one node of it.

        They are a proposal on any parent, and votes for a block.
        """
        for node_group in sorted(set(self._group_by_node)):
            group_nodes = [
                bare_node
                for node_index, bare_node in enumerate(self.nodes)
                if self._group_by_node[node_index] == node_group
            ]
            bare_node = self._random_source.choice(group_nodes)
            epoch_members, tree = bare_node.gadget.members, bare_node.chain.tree
            doubled_signers = [
                key_signer
                for key_number in DOUBLED_KEYS
                if (key_signer := fake_signer(key_number)).public in epoch_members.index
            ]
            newer_blocks = [facts for facts in tree.blocks.values() if facts.height > tree.final.height]
            if not doubled_signers or not newer_blocks:
                continue
            statements = self._statements(bare_node, doubled_signers[0], self._random_source.choice(newer_blocks))
            self._message_queue += [
                (self.nodes[0], node, statement) for statement in statements for node in group_nodes
            ]

    def _statements(self, bare_node: BareNode, doubled_signer: Signer, facts: BlockFacts) -> Iterator[Message]:
        """Yield statements about a block that the key's own gadgets would never sign together."""
        gadget = bare_node.gadget
        epoch, vote_round = gadget.members.epoch, gadget.rounds.current
        if gadget.leader(vote_round) == doubled_signer.public and gadget.proposed() is None:
            proposal = Proposal(epoch, vote_round, self._random_source.randrange(vote_round), facts.height, facts.id)
            yield Propose(SignedProposal(proposal, doubled_signer.sign(record_payload(GENESIS, proposal))))
        for ballot_kind in BallotKind:
            ballot_content = (0, NO_BLOCK) if ballot_kind == BallotKind.SKIP else (facts.height, facts.id)
            ballot = Ballot(ballot_kind, epoch, vote_round, *ballot_content)
            if self._random_source.random() < 0.7:
                signature = doubled_signer.sign(record_payload(GENESIS, ballot))
                yield Vote(SignedBallot(ballot, doubled_signer.public, signature), None)

    def _queue_message(self, sender: BareNode, message: Message, recipient: BareNode | None) -> None:
        node_group = self._group_by_node[self.nodes.index(sender)]
        for node_index, bare_node in enumerate(self.nodes):
            if (
                bare_node is not sender
                and self._group_by_node[node_index] == node_group
                and recipient in (None, bare_node)
            ):
                self._message_queue.append((sender, bare_node, message))

    def _deliver_all(self) -> None:
        """Deliver all messages in flight, in random order."""
        while self._message_queue:
            # Loss makes quorums that only some nodes know. Without loss, all nodes of a group know the same.
            is_lost = self._random_source.randrange(100) < self._loss_percent
            message_index = self._random_source.randrange(len(self._message_queue))
            self._message_queue[message_index], self._message_queue[-1] = (
                self._message_queue[-1],
                self._message_queue[message_index],
            )
            sender, bare_node, message = self._message_queue.pop()
            self._message_count += 1
            if is_lost:
                continue
            finals_before = len(bare_node.finals)
            bare_node.receive(sender, message, self._now_ms)
            # One node knows that a block is final, and no other node hears of it. The next rounds must still respect
            # it.
            if self._is_cut_at_final and len(bare_node.finals) > finals_before:
                self._message_queue.clear()
                self._isolated_nodes.add(self.nodes.index(bare_node))

    def _failures(self) -> Iterator[str]:
        honest_nodes = [bare_node for bare_node in self.nodes if bare_node.key not in DOUBLED_KEYS]
        final_at: dict[int, bytes] = {}
        for bare_node in honest_nodes:
            for final_height, final_block in enumerate(bare_node.finals, 1):
                if final_at.setdefault(final_height, final_block) != final_block:
                    yield f"conflicting finals at height {final_height}"
            yield from bare_node.evidence_failures
        honest_keys = {fake_signer(bare_node.key).public for bare_node in honest_nodes}
        if any(bare_node.accused & honest_keys for bare_node in self.nodes):
            yield "an honest key is accused"
        if (lowest_final := min(bare_node.chain.tree.final.height for bare_node in honest_nodes)) < LAST_HEIGHT:
            yield f"stands at {lowest_final} of {LAST_HEIGHT} after healing"


def _epoch_of_keys(epoch: int, key_numbers: Sequence[int]) -> Epoch:
    public_keys = [(key_number, fake_signer(key_number).public) for key_number in sorted(key_numbers)]
    epoch_members = tuple(
        Validator(key_number.to_bytes(32, "big"), public_key, public_key, 1) for key_number, public_key in public_keys
    )
    return Epoch(ValidatorSet(epoch, epoch_members), epoch.to_bytes(32, "big"))


def play_scenario(number: int) -> TwinsOutcome:
    """Return the outcome of one scenario, in a worker process."""
    return TwinsRun(number).play()


def chosen_scenarios(chosen_count: int, first_index: int = 0) -> list[int]:
    """Return the numbers of `count` scenarios from `first` on, spread over all of them."""
    scenario_total = count_scenarios()
    return [
        scenario_index * SCENARIO_STRIDE % scenario_total
        for scenario_index in range(first_index, first_index + min(chosen_count, scenario_total))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the scenarios that the command line selects. Return 0 if every requirement holds."""
    parser = argparse.ArgumentParser("devnet.simulation.twins", description="Twins on the bare finality gadget.")
    parser.add_argument("--count", type=int, default=100_000, help="scenarios")
    parser.add_argument("--first", type=int, default=0, help="first of them: another shard")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--report", default="out/twins.json", help="where the figures go")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as process_pool:
        outcomes = list(process_pool.map(play_scenario, chosen_scenarios(options.count, options.first), chunksize=64))
    report = summarise_twins(outcomes, time.monotonic() - started)
    path = Path(options.report)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failed_outcomes = [outcome for outcome in outcomes if outcome.failures]
    for outcome in failed_outcomes[:20]:
        print(f"FAILED scenario {outcome.number}: {'; '.join(outcome.failures)}")
    print(
        f"twins: {report['scenarios']} of {report['possible']} scenarios, {report['conflicts']} conflicts, "
        f"{report['honest_accused']} honest keys accused, {report['stalled']} stalls after healing; the doubled key "
        f"accused in {report['guilty_accused']}, {report['messages']} messages, {report['wall_s']} s"
    )
    return 1 if failed_outcomes else 0


def summarise_twins(outcomes: Sequence[TwinsOutcome], wall_s: float) -> dict[str, object]:
    """Return the figures of a set of scenarios."""
    failure_texts = [" ".join(outcome.failures) for outcome in outcomes]
    return {
        "scenarios": len(outcomes),
        "possible": count_scenarios(),
        "conflicts": sum("conflicting" in failures for failures in failure_texts),
        "honest_accused": sum("accused" in failures or "verify" in failures for failures in failure_texts),
        "stalled": sum("after healing" in failures for failures in failure_texts),
        "guilty_accused": sum(outcome.accused > 0 for outcome in outcomes),
        "messages": sum(outcome.messages for outcome in outcomes),
        "failures": {str(outcome.number): outcome.failures for outcome in outcomes if outcome.failures},
        "wall_s": round(wall_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
