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

DOUBLED = (0, 4)  # keys with two gadgets; no set contains both
EDGES = {
    "the same": (0, 1, 2, 3),
    "the doubled key leaves": (1, 2, 3, 5),
    "another one comes doubled": (1, 2, 3, 4),
    "half of them": (0, 1, 5, 6),
    "nobody in common": (4, 5, 6, 7),
}
GROUPS_MAX = 3
PHASES = 7
LOSS_PERCENT = (0, 0, 30, 60)
LEADERS_NAMED = 6
HEALING_PHASES_MAX = 40
PHASE_MS = 2 * PARAMETERS.resend_ms
TIMEOUT_MS = PARAMETERS.round_timeout(PARAMETERS.timeout_doublings_max)
STRIDE = 7_919  # coprime to the number of scenarios, so consecutive numbers spread over all of them


@lru_cache(maxsize=1)
def partitions() -> tuple[tuple[int, ...], ...]:
    """Return the partitions of the first set's five gadgets into at most GROUPS_MAX groups."""
    found = []
    for groups in product(range(GROUPS_MAX), repeat=5):
        firsts = [groups.index(group) for group in sorted(set(groups))]
        if firsts == sorted(firsts) and set(groups) == set(range(len(firsts))):
            found.append(groups)
    return tuple(found)


def count_scenarios() -> int:
    """Return the number of enumerated scenarios. Each has randomly drawn later phases."""
    return len(EDGES) * len(partitions()) ** 2 * 4**2


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
        count = len(partitions())
        number, edge = divmod(number, len(EDGES))
        number, first = divmod(number, count)
        number, second = divmod(number, count)
        led = divmod(number, 4)
        self._chance = Random(f"twins/{self.number}")
        self._now_ms = 1_000_000
        self._messages = 0
        self._queue: list[tuple[BareNode, BareNode, Message]] = []
        self._planned = [partitions()[first], partitions()[second]]
        following = list(EDGES.values())[edge]
        epochs = {0: _epoch(0, (0, 1, 2, 3)), 1: _epoch(1, following)}
        drawn = [[self._chance.randrange(4) for _ in range(LEADERS_NAMED)] for _ in epochs]
        drawn[0][:2] = led
        keys = [0, 0, 1, 2, 3, *(key for key in following if key > 3 for _ in range(1 + (key in DOUBLED)))]
        # The two gadgets of a doubled key prefer different sides of each fork.
        self.nodes = [
            BareNode(key, epochs, drawn, self._say, taste=place if key in DOUBLED else self._chance.randrange(2))
            for place, key in enumerate(keys)
        ]
        self._groups: Sequence[int] = [0] * len(keys)
        self._loss_percent = 0
        self._is_cut_at_final = False
        self._alone: set[int] = set()  # nodes that know of a final block and are isolated
        self._has_third_hand = self._chance.random() < 0.5

    def play(self) -> TwinsOutcome:
        """Play all phases, then heal."""
        for phase in range(PHASES):
            self._groups = self._partition(phase)
            self._loss_percent = self._chance.choice(LOSS_PERCENT)
            self._is_cut_at_final = self._chance.random() < 0.5
            self._phase(phase + 1, is_long=self._chance.random() < 0.5)
        self._groups = [0] * len(self.nodes)
        self._loss_percent, self._is_cut_at_final = 0, False
        height = PHASES
        while min(node.chain.tree.final.height for node in self.nodes) < LAST_HEIGHT:
            height += 1
            if height > PHASES + HEALING_PHASES_MAX:
                break
            self._phase(height, is_long=True)
        return TwinsOutcome(
            self.number, tuple(self._failures()), len(set().union(*(node.accused for node in self.nodes))),
            min(node.chain.tree.final.height for node in self.nodes), self._messages,
        )  # fmt: skip

    def _partition(self, phase: int) -> list[int]:
        groups = self._planned[phase] if phase < len(self._planned) else self._chance.choice(partitions())
        more = [self._chance.randrange(GROUPS_MAX) for _ in self.nodes[len(groups) :]]
        apart, self._alone = self._alone, set()
        return [GROUPS_MAX + place if place in apart else group for place, group in enumerate([*groups, *more])]

    def _phase(self, height: int, *, is_long: bool) -> None:
        """Play a phase: add at most one block, and resend votes. In a long phase, rounds time out."""
        for node in self.nodes:
            node.grow(min(height, LAST_HEIGHT, PARAMETERS.boundary(node.gadget.members.epoch)))
            if node.key not in DOUBLED:
                node.taste = self._chance.randrange(2)
        for step_ms in (PHASE_MS, TIMEOUT_MS) if is_long else (PHASE_MS,):
            self._now_ms += step_ms
            for node in self.nodes:
                node.advance(self._now_ms)
            if self._has_third_hand:
                self._forge()
            self._deliver()

    def _forge(self) -> None:
        """Send each group statements of the doubled key that suit one node of it.

        They are a proposal on any parent, and votes for a block.
        """
        for group in sorted(set(self._groups)):
            among = [node for place, node in enumerate(self.nodes) if self._groups[place] == group]
            node = self._chance.choice(among)
            members, tree = node.gadget.members, node.chain.tree
            hands = [signer for key in DOUBLED if (signer := fake_signer(key)).public in members.index]
            above = [facts for facts in tree.blocks.values() if facts.height > tree.final.height]
            if not hands or not above:
                continue
            statements = self._statements(node, hands[0], self._chance.choice(above))
            self._queue += [(self.nodes[0], other, statement) for statement in statements for other in among]

    def _statements(self, node: BareNode, hand: Signer, facts: BlockFacts) -> Iterator[Message]:
        """Yield statements about a block that the key's own gadgets would never sign together."""
        gadget = node.gadget
        epoch, round_ = gadget.members.epoch, gadget.rounds.current
        if gadget.leader(round_) == hand.public and gadget.proposed() is None:
            proposal = Proposal(epoch, round_, self._chance.randrange(round_), facts.height, facts.id)
            yield Propose(SignedProposal(proposal, hand.sign(record_payload(GENESIS, proposal))))
        for kind in BallotKind:
            content = (0, NO_BLOCK) if kind == BallotKind.SKIP else (facts.height, facts.id)
            ballot = Ballot(kind, epoch, round_, *content)
            if self._chance.random() < 0.7:
                signature = hand.sign(record_payload(GENESIS, ballot))
                yield Vote(SignedBallot(ballot, hand.public, signature), None)

    def _say(self, sender: BareNode, message: Message, to: BareNode | None) -> None:
        group = self._groups[self.nodes.index(sender)]
        for place, node in enumerate(self.nodes):
            if node is not sender and self._groups[place] == group and to in (None, node):
                self._queue.append((sender, node, message))

    def _deliver(self) -> None:
        """Deliver all messages in flight, in random order."""
        while self._queue:
            # Loss makes quorums that only some nodes know. Without loss, all nodes of a group know the same.
            is_lost = self._chance.randrange(100) < self._loss_percent
            place = self._chance.randrange(len(self._queue))
            self._queue[place], self._queue[-1] = self._queue[-1], self._queue[place]
            sender, node, message = self._queue.pop()
            self._messages += 1
            if is_lost:
                continue
            before = len(node.finals)
            node.receive(sender, message, self._now_ms)
            # One node knows that a block is final, and no other node hears of it. The next rounds must still respect
            # it.
            if self._is_cut_at_final and len(node.finals) > before:
                self._queue.clear()
                self._alone.add(self.nodes.index(node))

    def _failures(self) -> Iterator[str]:
        honest = [node for node in self.nodes if node.key not in DOUBLED]
        final_at: dict[int, bytes] = {}
        for node in honest:
            for height, block in enumerate(node.finals, 1):
                if final_at.setdefault(height, block) != block:
                    yield f"conflicting finals at height {height}"
            yield from node.evidence_failures
        keys = {fake_signer(node.key).public for node in honest}
        if any(node.accused & keys for node in self.nodes):
            yield "an honest key is accused"
        if (lowest := min(node.chain.tree.final.height for node in honest)) < LAST_HEIGHT:
            yield f"stands at {lowest} of {LAST_HEIGHT} after healing"


def _epoch(number: int, keys: Sequence[int]) -> Epoch:
    publics = [(key, fake_signer(key).public) for key in sorted(keys)]
    members = tuple(Validator(key.to_bytes(32, "big"), public, public, 1) for key, public in publics)
    return Epoch(ValidatorSet(number, members), number.to_bytes(32, "big"))


def play(number: int) -> TwinsOutcome:
    """Return the outcome of one scenario, in a worker process."""
    return TwinsRun(number).play()


def choose(count: int, first: int = 0) -> list[int]:
    """Return the numbers of `count` scenarios from `first` on, spread over all of them."""
    total = count_scenarios()
    return [place * STRIDE % total for place in range(first, first + min(count, total))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the scenarios that the command line selects. Return 0 if every requirement holds."""
    parser = argparse.ArgumentParser("devnet.simulation.twins", description="Twins on the bare finality gadget.")
    parser.add_argument("--count", type=int, default=100_000, help="scenarios")
    parser.add_argument("--first", type=int, default=0, help="first of them: another shard")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--report", default="out/twins.json", help="where the figures go")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(play, choose(options.count, options.first), chunksize=64))
    report = summarise_twins(outcomes, time.monotonic() - started)
    path = Path(options.report)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failed = [outcome for outcome in outcomes if outcome.failures]
    for outcome in failed[:20]:
        print(f"FAILED scenario {outcome.number}: {'; '.join(outcome.failures)}")
    print(
        f"twins: {report['scenarios']} of {report['possible']} scenarios, {report['conflicts']} conflicts, "
        f"{report['honest_accused']} honest keys accused, {report['stalled']} stalls after healing; the doubled key "
        f"accused in {report['guilty_accused']}, {report['messages']} messages, {report['wall_s']} s"
    )
    return 1 if failed else 0


def summarise_twins(outcomes: Sequence[TwinsOutcome], wall_s: float) -> dict[str, object]:
    """Return the figures of a set of scenarios."""
    said = [" ".join(outcome.failures) for outcome in outcomes]
    return {
        "scenarios": len(outcomes),
        "possible": count_scenarios(),
        "conflicts": sum("conflicting" in failures for failures in said),
        "honest_accused": sum("accused" in failures or "verify" in failures for failures in said),
        "stalled": sum("after healing" in failures for failures in said),
        "guilty_accused": sum(outcome.accused > 0 for outcome in outcomes),
        "messages": sum(outcome.messages for outcome in outcomes),
        "failures": {str(outcome.number): outcome.failures for outcome in outcomes if outcome.failures},
        "wall_s": round(wall_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
