"""A chain on which racers of a batch answer differently, and show their trees as told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import TreeNode, leaf_claim, nodes_below, subtrees_of
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState, racer_of
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.frame.call import Call
from scripts.chains.leaf_chain import LeafChain, Opinion, leaves_for
from scripts.chains.market_chain import Keys, Step, signed

Answers = tuple[tuple[Leaf, ...], ...]


@dataclass
class DisputeChain(LeafChain):
    """Batches whose racers have answers of their own, in the order of their places."""

    answers: dict[bytes, Answers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """As of any batch, with short windows."""
        self.numbers = {"LeafDisputes.show_blocks": 8, **self.numbers}
        super().__post_init__()

    def disputed(self, *wrong: Sequence[int]) -> bytes:
        """A batch of whose racers each has these leaves wrong, until its answers are in; its unit."""
        self.racers = len(wrong)
        unit = self.posted()
        self.answers[unit] = tuple(leaves_for(unit, self.requests, each) for each in wrong)
        self.race(unit, UnitState.JUDGING)
        return unit

    def answer(self, unit: bytes, keys: Keys) -> tuple[Leaf, ...]:
        """The leaves of a racer's place, or those that all agree on."""
        if unit not in self.answers:
            return super().answer(unit, keys)
        record = self.unit(unit)
        racer = racer_of(record, keys.stash)
        assert racer is not None, "it races"
        return self.answers[unit][record.racers.index(racer)]

    def racer(self, unit: bytes, place: int) -> Keys:
        """Who races at a place."""
        return self.chain.keys_of(self.unit(unit).racers[place].owner)

    def dispute(self, unit: bytes) -> LeafDispute:
        """The dispute as it stands."""
        return self.chain.now()[LeafDisputes].open_dispute(unit)

    def is_disputed(self, unit: bytes) -> bool:
        """Whether it goes on."""
        return self.chain.now()[LeafDisputes].is_disputed(unit)

    def nodes_call(self, unit: bytes, keys: Keys, /, **changed: Any) -> Call:
        """What a racer shows of its tree now, with something changed."""
        nodes = self.nodes(unit, keys)
        return LeafDisputes.show_nodes(**{"unit": unit, "totals": self.totals(unit, keys), "nodes": nodes, **changed})

    def nodes(self, unit: bytes, keys: Keys) -> tuple[TreeNode, ...]:
        """The nodes of a racer's tree that are asked for."""
        leaves, dispute = self.answer(unit, keys), self.dispute(unit)
        is_first = dispute.stage is DisputeStage.SUBTREES
        return subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)

    def shows(self, unit: bytes, place: int) -> Step:
        """A step: the racer of a place shows what is asked for."""
        keys = self.racer(unit, place)
        return signed(keys.provider, self.nodes_call(unit, keys))

    def play(self, unit: bytes, *silent: int) -> None:
        """Blocks of the dispute until it is over."""
        for _ in range(500):
            if not self.is_disputed(unit):
                return
            self.play_block(unit, *silent)
        raise AssertionError("a dispute without end")

    def play_block(self, unit: bytes, *silent: int) -> None:
        """All but some racers show their trees, judges judge, and who has nothing at stake any more leaves."""
        dispute = self.dispute(unit)
        due = [side.accounts[0] for side in dispute.sides if not side.has_shown]
        places = [place for place, racer in enumerate(self.unit(unit).racers) if racer.owner in due]
        is_asked = dispute.stage is not DisputeStage.JUDGED and self.chain.height < dispute.deadline
        shown = [self.shows(unit, place) for place in places if is_asked and place not in silent]
        self.chain.block(*shown, *self.judge_steps(), *self.leaving_steps(unit))

    def leaving_steps(self, unit: bytes) -> Iterator[Step]:
        """Racers who have lost all that they held for the batch take their devices away."""
        for racer in self.unit(unit).racers:
            if not racer.collateral and self.chain.now()[Devices].devices[racer.device] is not None:
                if self.chain.now()[InferenceMarket].offers[0, racer.device] is not None:
                    yield signed(racer.owner, InferenceMarket.withdraw_offer(device=racer.device, service=0))
                yield signed(racer.owner, Devices.unregister_device(device=racer.device))

    def truth(self, case: bytes) -> Opinion:
        """What an honest judge says of a leaf in which racers differ, or of a check."""
        dispute = self.chain.now()[LeafDisputes].disputes[case]
        if dispute is None:
            return super().truth(case)
        return Answered(leaf_claim(dispute.leaf, leaves_for(case, self.requests)[dispute.leaf]))
