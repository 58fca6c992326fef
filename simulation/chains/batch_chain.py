"""Chains of batches with leaf checks or disputes: invented leaves, auditors and judges with scripts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_tasks.batches.leaf_draws import drawn_points, index_at, weight_floor
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import (
    LeafPath,
    Totals,
    TreeNode,
    batch_root,
    leaf_claim,
    leaf_path,
    leaf_paths,
    nodes_below,
    subtrees_of,
    totals_of,
)
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, racer_of
from gpu_tasks.market.leaf_checks.checks import ANSWERERS_MAX, LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from simulation.chains.market_chain import (
    BOND,
    CUSTOMER,
    GENESIS_HASH,
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
SALT = blake2_256(b"salt of a sealed input")
RACE_BLOCKS_MAX = 60
Opinion = Answered | Unanswerable


def leaves_for(unit: bytes, requests: int, wrong: Collection[int] = ()) -> tuple[Leaf, ...]:
    """Return the leaves of a batch: request number i takes i % 16 + 1 tokens, and those in `wrong` are false."""
    names = (b"wrong" if index in wrong else b"right" for index in range(requests))
    return tuple(
        Leaf(0, index % TOKENS_EACH + 1, blake2_256(name + unit + index.to_bytes(4, "little")))
        for index, name in enumerate(names)
    )


@dataclass
class LeafChain:
    """Batches one after another on a chain of `size` validators, with a filled audit pot."""

    size: int = 10
    requests: int = 40
    price: int = OGPU
    numbers: dict[str, Any] = field(default_factory=dict)
    racers: int = 2
    kind: type[MarketChain] = MarketChain
    silent: Collection[str] = ()
    """Judges without an opinion."""
    bonds: tuple[int, ...] = (BOND,)
    """Bonds of the validators, repeated."""
    answering: int = ANSWERERS_MAX
    """The number of a unit's racers that answer."""

    def __post_init__(self) -> None:
        """Make block 0, and fill the pot."""
        numbers = {
            "LeafChecks.check_from": 2,
            "LeafChecks.show_blocks": 8,
            "LeafChecks.check_blocks": 8,
            **self.numbers,
        }
        self.chain = self.kind(named_keys(self.size), [], numbers, bonds=self.bonds)
        self.said: dict[bytes, Opinion] = {}
        """False opinions, by case."""
        self.leaves: dict[bytes, tuple[Leaf, ...]] = {}
        self.chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, 100 * OGPU))

    # ------------------------------------------------------------------------------------------------------- the batch

    def settled(self, wrong: Collection[int] = ()) -> bytes:
        """Return the unit of a settled batch whose racers agree on leaves, some of them false."""
        unit = self.posted()
        self.leaves[unit] = leaves_for(unit, self.requests, wrong)
        self.race(unit, UnitState.SETTLED)
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
        """Return the leaves of a racer's answer."""
        return self.leaves[unit]

    def totals(self, unit: bytes, keys: Keys) -> Totals:
        """Return the totals that a racer commits to."""
        return totals_of(self.answer(unit, keys))

    def unit(self, unit: bytes) -> Unit:
        """Return the unit's newest record."""
        return self.chain.unit(unit)

    def check(self, unit: bytes) -> LeafCheck:
        """Return the open check of a batch."""
        return self.chain.now()[LeafChecks].open_check(unit)

    def is_over(self, unit: bytes) -> bool:
        """Return whether the check has ended."""
        return unit not in self.chain.now()[LeafChecks].checks

    def until(self, unit: bytes, *stages: LeafStage) -> LeafCheck | None:
        """Make blocks in which judges act, until the check is in one of the stages, or has ended."""
        for _ in range(500):
            check = self.chain.now()[LeafChecks].checks[unit]
            if check is None or check.stage in stages:
                return check
            self.chain.block(*self.judge_steps())
        raise AssertionError("a check without end")

    # ------------------------------------------------------------------------------------------------ the parties

    def answerers(self, unit: bytes) -> list[Keys]:
        """Return the accounts that may show the leaves, the winner first."""
        return [self.chain.keys_of(each.account) for each in self.check(unit).terms.answerers]

    def auditor(self, unit: bytes) -> Keys:
        """Make blocks until an auditor is drawn, and return it."""
        self.until(unit, LeafStage.CHECKING)
        while self.check(unit).auditor is None:
            self.chain.block()
        found = self.check(unit).auditor
        assert found is not None
        return self.chain.keys_of(found)

    def drawn(self, unit: bytes) -> tuple[int, ...]:
        """Return the leaf at each drawn point."""
        check, leaves = self.check(unit), self.leaves[unit]
        assert check.seed is not None
        floor = weight_floor(check.terms.allowed, check.terms.requests)
        share = check.terms.input_share
        points = drawn_points(check.seed, unit, totals_of(leaves), floor, input_share=share)
        return tuple(index_at(leaves, floor, point, input_share=share) for point in points)

    def show_call(self, unit: bytes, /, **changed: Any) -> Call:
        """Return the call that shows the drawn leaves, with some arguments changed."""
        paths = tuple(leaf_paths(self.leaves[unit], self.drawn(unit)))
        return LeafChecks.show_leaves(
            **{"unit": unit, "totals": totals_of(self.leaves[unit]), "paths": paths, **changed}
        )

    def shown(self, unit: bytes) -> Keys:
        """Make blocks until the leaves are shown and an auditor is drawn. Return the auditor."""
        self.until(unit, LeafStage.SHOWING)
        self.chain.block(signed(self.answerers(unit)[0].provider, self.show_call(unit)))
        return self.auditor(unit)

    def path(self, unit: bytes, index: int) -> LeafPath:
        """Return the path of an answered leaf."""
        return leaf_path(self.leaves[unit], index)

    def claim(self, unit: bytes, index: int, *, is_right: bool = True) -> bytes:
        """Return the right claim about a leaf, or a false one."""
        wrong = () if is_right else (index,)
        return leaf_claim(index, leaves_for(unit, self.requests, wrong)[index])

    def proof(self, unit: bytes, auditor: bytes) -> bytes:
        """Return an auditor's proof of having computed the drawn leaves, right or not."""
        indices = tuple(leaf.index for leaf in self.check(unit).shown)
        right = leaves_for(unit, self.requests)
        is_shown = all(right[index] == self.leaves[unit][index] for index in indices)
        digests = [right[index].digest for index in indices]
        return leaves_proof(GENESIS_HASH, unit, auditor, SALT, digests, is_shown=is_shown)

    def passes(self, unit: bytes, auditor: Keys, proof: bytes | None = None) -> Step:
        """Return a step: the auditor passes, with its right proof or another."""
        return signed(
            auditor.provider,
            LeafChecks.pass_leaves(unit=unit, proof=self.proof(unit, auditor.stash) if proof is None else proof),
        )

    def doubts(self, unit: bytes, auditor: Keys, index: int, found: bytes) -> Step:
        """Return a step: the auditor doubts a leaf."""
        return signed(auditor.provider, LeafChecks.doubt_leaf(unit=unit, index=index, found=found))

    def dispute_call(self, unit: bytes, index: int, found: bytes, /, **changed: Any) -> Call:
        """Return the call by which the customer disputes a leaf."""
        named = {"unit": unit, "totals": totals_of(self.leaves[unit]), "path": self.path(unit, index), "found": found}
        return LeafChecks.dispute_leaf(**{**named, **changed})

    # ------------------------------------------------------------------------------------------------------ the judges

    def truth(self, case: bytes) -> Opinion:
        """Return an honest judge's opinion on a case of a check."""
        room = self.chain.now()[LeafChecks]
        unit, check = room.of_case(case)
        if check.doubt is not None:
            return Answered(self.claim(unit, check.doubt.shown.index))
        assert check.auditor is not None
        return Answered(self.proof(unit, check.auditor))

    def opinion(self, case: bytes, keys: Keys) -> Opinion:
        """Return a judge's opinion."""
        return self.said.get(case) or self.truth(case)

    def judge_steps(self) -> Iterator[Step]:
        """Return the steps of all judges but the silent ones in the next block."""
        return self.chain.judge_steps(lambda case, keys: None if keys.name in self.silent else self.opinion(case, keys))

    # ----------------------------------------------------------------------------------------------------------- money

    def owned(self, *who: bytes) -> int:
        """Return the grains of some accounts, free and held."""
        return self.chain.owned(*who)

    @property
    def pot(self) -> int:
        """The grains in the audit pot."""
        return self.owned(AUDIT_POT)

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


Answers = tuple[tuple[Leaf, ...], ...]


@dataclass
class DisputeChain(LeafChain):
    """Batches whose racers have different answers, in the order of their places."""

    answers: dict[bytes, Answers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin as `LeafChain`, with short windows."""
        self.numbers = {"LeafDisputes.show_blocks": 8, **self.numbers}
        super().__post_init__()

    def disputed(self, *wrong: Sequence[int]) -> bytes:
        """Return the unit of a batch once its answers are in. Each racer has the given leaves wrong."""
        self.racers = len(wrong)
        unit = self.posted()
        self.answers[unit] = tuple(leaves_for(unit, self.requests, each) for each in wrong)
        self.race(unit, UnitState.JUDGING)
        return unit

    def answer(self, unit: bytes, keys: Keys) -> tuple[Leaf, ...]:
        """Return the leaves of a racer's place, or the common ones."""
        if unit not in self.answers:
            return super().answer(unit, keys)
        record = self.unit(unit)
        racer = racer_of(record, keys.stash)
        assert racer is not None, "it races"
        return self.answers[unit][record.racers.index(racer)]

    def racer(self, unit: bytes, place: int) -> Keys:
        """Return the racer of a place."""
        return self.chain.keys_of(self.unit(unit).racers[place].owner)

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
        is_first = dispute.stage is DisputeStage.SUBTREES
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
        """Make a block: all but some racers show trees, judges act, and racers without a stake leave."""
        dispute = self.dispute(unit)
        due = [side.accounts[0] for side in dispute.sides if not side.has_shown]
        places = [place for place, racer in enumerate(self.unit(unit).racers) if racer.owner in due]
        is_asked = dispute.stage is not DisputeStage.JUDGED and self.chain.height < dispute.deadline
        shown = [self.shows(unit, place) for place in places if is_asked and place not in silent]
        self.chain.block(*shown, *self.judge_steps(), *self.leaving_steps(unit))

    def leaving_steps(self, unit: bytes) -> Iterator[Step]:
        """Yield steps of racers that have lost their collateral for the batch: they unregister their devices."""
        for racer in self.unit(unit).racers:
            if not racer.collateral and self.chain.now()[Devices].devices[racer.device] is not None:
                if self.chain.now()[InferenceMarket].offers[0, racer.device] is not None:
                    yield signed(racer.owner, InferenceMarket.withdraw_offer(device=racer.device, service=0))
                yield signed(racer.owner, Devices.unregister_device(device=racer.device))

    def truth(self, case: bytes) -> Opinion:
        """Return an honest judge's opinion on a disputed leaf, or on a check."""
        dispute = self.chain.now()[LeafDisputes].disputes[case]
        if dispute is None:
            return super().truth(case)
        return Answered(leaf_claim(dispute.leaf, leaves_for(case, self.requests)[dispute.leaf]))
