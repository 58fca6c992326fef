"""Chains of batches: invented leaves, racers with different results, and voters with scripts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import Totals, TreeNode, batch_root, leaf_claim, nodes_below, subtrees_of, totals_of
from gpu_tasks.market.claims.disputes import Dispute, seeds_of
from gpu_tasks.market.claims.findings import FINGERPRINT_BYTES, ItemSample, ItemVote, Verdict
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, racer_of
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import (
    BOND,
    OGPU,
    Keys,
    MarketChain,
    Step,
    attach,
    attestation,
    commit,
    named_keys,
    signed,
    terms,
)

TOKENS_EACH = 16
RACE_BLOCKS_MAX = 60
VALIDATORS = 20
"""So many that nine vote, beside four racers."""
Answers = tuple[tuple[Leaf, ...], ...]


def leaves_for(unit: bytes, requests: int, wrong: Collection[int] = ()) -> tuple[Leaf, ...]:
    """Return the leaves of a batch: request number i takes i % 16 + 1 tokens, and those in `wrong` are false."""
    names = (b"wrong" if index in wrong else b"right" for index in range(requests))
    return tuple(
        Leaf(0, index % TOKENS_EACH + 1, blake2_256(name + unit + index.to_bytes(4, "little")))
        for index, name in enumerate(names)
    )


@dataclass
class DisputeChain:
    """Batches one after another on a chain of `size` validators. Racers have results by the order of their places."""

    size: int = VALIDATORS
    requests: int = 40
    price: int = OGPU
    numbers: dict[str, Any] = field(default_factory=dict)
    racers: int = 2
    kind: type[MarketChain] = MarketChain
    is_silent: bool = False
    """True if no voter votes."""
    bonds: tuple[int, ...] = (BOND,)
    """Bonds of the validators, repeated."""
    answering: int = 8
    """The number of a unit's racers that answer."""
    answers: dict[bytes, Answers] = field(default_factory=dict)
    said: dict[bytes, ItemVote] = field(default_factory=dict)
    """False votes, by unit."""

    def __post_init__(self) -> None:
        """Make block 0, with short windows."""
        numbers = {"LeafDisputes.show_blocks": 8, **self.numbers}
        self.chain = self.kind(named_keys(self.size), [], numbers, bonds=self.bonds)
        self.chain.block()

    # ------------------------------------------------------------------------------------------------------- the batch

    def disputed(self, *wrong: Sequence[int]) -> bytes:
        """Return the unit of a batch once its results are in. Each racer has the given leaves wrong."""
        unit = self._with_answers(*wrong)
        self.race(unit, UnitState.DISPUTED)
        return unit

    def claimed(self, *wrong: Sequence[int]) -> bytes:
        """Return the unit of a batch whose racers agree on leaves, some of them false."""
        unit = self._with_answers(*wrong)
        self.race(unit, UnitState.CLAIMED)
        return unit

    def posted(self) -> bytes:
        """Post a batch, and return its unit."""
        tokens = self.requests * TOKENS_EACH
        asked = replace(terms(self.price, self.racers, self.chain.height - 1, tokens), requests=self.requests)
        (unit,) = self.chain.post(asked)
        return unit

    def race(self, unit: bytes, until: UnitState) -> None:
        """Make blocks in which its racers answer, until the unit has the state `until`."""
        for _ in range(RACE_BLOCKS_MAX):
            if self.unit(unit).state is until:
                return
            self.chain.block(*self._race(unit))
        raise AssertionError("a race without end")

    def answer(self, unit: bytes, keys: Keys) -> tuple[Leaf, ...]:
        """Return the leaves of a racer's place."""
        record = self.unit(unit)
        racer = racer_of(record, keys.stash)
        assert racer is not None, "it races"
        return self.answers[unit][record.racers.index(racer)]

    def totals(self, unit: bytes, keys: Keys) -> Totals:
        """Return the totals that a racer commits to."""
        return totals_of(self.answer(unit, keys))

    def unit(self, unit: bytes) -> Unit:
        """Return the unit's newest record."""
        return self.chain.unit(unit)

    def racer(self, unit: bytes, place: int) -> Keys:
        """Return the racer of a place."""
        return self.chain.keys_of(self.unit(unit).racers[place].owner)

    def owned(self, *who: bytes) -> int:
        """Return the grains of some accounts, free and held."""
        return self.chain.owned(*who)

    # ------------------------------------------------------------------------------------------------------ the dispute

    def dispute(self, unit: bytes) -> LeafDispute:
        """Return the open dispute."""
        return self.chain.now()[LeafDisputes].open_dispute(unit)

    def is_disputed(self, unit: bytes) -> bool:
        """Return whether the dispute is open."""
        return self.chain.now()[LeafDisputes].is_disputed(unit)

    def nodes_call(self, unit: bytes, keys: Keys, /, **changed: Any) -> Call:
        """Return the call by which a racer shows its tree, with some arguments changed."""
        nodes = self.nodes(unit, keys)
        return LeafDisputes.show_nodes(**{"unit": unit, "totals": self.totals(unit, keys), "nodes": nodes, **changed})

    def nodes(self, unit: bytes, keys: Keys) -> tuple[TreeNode, ...]:
        """Return the requested nodes of a racer's tree."""
        leaves, dispute = self.answer(unit, keys), self.dispute(unit)
        is_first = dispute.stage is LeafDisputeStage.SUBTREES
        return subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)

    def shows(self, unit: bytes, place: int) -> Step:
        """Return a step: the racer of a place shows the requested nodes."""
        keys = self.racer(unit, place)
        return signed(keys.provider, self.nodes_call(unit, keys))

    def play(self, unit: bytes, *silent: int) -> None:
        """Make blocks of the dispute until it ends."""
        for _ in range(500):
            if not self.is_disputed(unit):
                return
            self.play_block(unit, *silent)
        raise AssertionError("a dispute without end")

    def play_block(self, unit: bytes, *silent: int) -> None:
        """Make a block: all but some racers show trees, voters act, and racers without collateral leave."""
        dispute = self.dispute(unit)
        due = [side.accounts[0] for side in dispute.sides if not side.has_shown]
        places = [place for place, racer in enumerate(self.unit(unit).racers) if racer.owner in due]
        is_asked = dispute.stage is not LeafDisputeStage.JUDGED and self.chain.height < dispute.deadline
        shown = [self.shows(unit, place) for place in places if is_asked and place not in silent]
        self.chain.block(*shown, *self.voter_steps(), *self.leaving_steps(unit))

    def leaving_steps(self, unit: bytes) -> Iterator[Step]:
        """Yield steps of racers that have lost their collateral for the batch: they unregister their devices."""
        for racer in self.unit(unit).racers:
            device = self.chain.now()[Devices].devices[racer.device]
            if not racer.collateral and device is not None and device.is_paused:
                if self.chain.now()[InferenceMarket].offers[0, racer.device] is not None:
                    yield signed(racer.owner, InferenceMarket.withdraw_offer(device=racer.device, service=0))
                yield signed(racer.owner, Devices.unregister_device(device=racer.device))

    # ------------------------------------------------------------------------------------------------------- the voters

    def voter_steps(self) -> Iterator[Step]:
        """Return the steps of all voters in the next block."""
        return iter(()) if self.is_silent else voter_steps(self.chain, self.vote)

    def vote(self, dispute: Dispute) -> ItemVote:
        """Return the vote about a disputed leaf: the right one, or that of `said`."""
        unit, index = dispute.terms.work, dispute.terms.index
        right = leaf_claim(index, leaves_for(unit, self.requests)[index])
        prints = (blake2_256(right + seed)[:FINGERPRINT_BYTES] for seed in seeds_of(dispute))
        samples = tuple(ItemSample(index, 1, each) for each in prints)
        return self.said.get(unit) or ItemVote(Verdict.RIGHT, right, samples)

    def _with_answers(self, *wrong: Sequence[int]) -> bytes:
        self.racers = len(wrong)
        unit = self.posted()
        self.answers[unit] = tuple(leaves_for(unit, self.requests, each) for each in wrong)
        return unit

    def _race(self, unit: bytes) -> Sequence[Step]:
        record = self.unit(unit)
        if record.state is not UnitState.RACING or record.round is None:
            return ()
        racers = record.racers[: self.answering]
        if not record.round.closed_at:
            racing = [self.chain.keys_of(racer.owner) for racer in racers if racer.commitment is None]
            return [commit(keys, unit, record, batch_root(self.totals(unit, keys))) for keys in racing]
        if record.round.closed_at > self.chain.height - 1:
            return ()
        owners = [self.chain.keys_of(racer.owner) for racer in racers if racer.reveal is None]
        told = [(keys, self.totals(unit, keys)) for keys in owners]
        return [attach(*(attestation(keys, unit, record, batch_root(totals), totals=totals) for keys, totals in told))]
