"""Invalid trees: tokens beside right nodes, sums without leaves, and hidden trees."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, Totals, TreeNode, combined, nodes_below, subtree_count
from gpu_tasks.market.inference.events import ProviderSlashed, ResultClaimed
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, TreeWithheld, WrongNodes
from simulation.chains.batch_chain import DisputeChain, leaves_for
from simulation.chains.market_chain import Keys, refused, tolerant

BLOCKS_MAX = 1_000
PRICE_EACH = 2_500_000
CHECKED_FROM = 16


class Lie(Enum):
    """The fault of an answer."""

    NOTHING = auto()
    LEAF = auto()
    LEAVES = auto()
    TOKENS = auto()
    """Tokens beside a right node, with right sums above."""
    SUMS = auto()
    """In a subtree, above right leaves."""
    HIDDEN = auto()
    """A wrong leaf in a hidden tree."""


@dataclass(frozen=True)
class Answer:
    """An answer, and the place of its lie."""

    lie: Lie = Lie.NOTHING
    places: tuple[int, ...] = ()


@dataclass
class BentChain(DisputeChain):
    """Racers that answer with trees of any kind, in the order of their places."""

    bent: Sequence[Answer] = ()
    trees: dict[bytes, tuple[list[TreeNode], list[TreeNode]]] = field(default_factory=dict)

    def raced(self, *answers: Answer) -> bytes:
        """Return a unit of a batch with these answers."""
        self.bent = answers
        return self.disputed(*([] for _ in answers))

    def tree(self, unit: bytes, keys: Keys) -> tuple[list[TreeNode], list[TreeNode]]:
        """Return the leaves and the subtrees of a racer's tree."""
        if keys.stash not in self.trees:
            place = [racer.owner for racer in self.unit(unit).racers].index(keys.stash)
            self.trees[keys.stash] = self._bent(unit, self.bent[place])
        return self.trees[keys.stash]

    def totals(self, unit: bytes, keys: Keys) -> Totals:
        """Return the totals of the bent tree."""
        top = combined(self.tree(unit, keys)[1])
        assert top is not None
        return Totals(self.requests, top.tokens_in, top.tokens_out, top.hash)

    def nodes(self, unit: bytes, keys: Keys) -> tuple[TreeNode, ...]:
        """Return the nodes of the bent tree."""
        (leaves, subtrees), dispute = self.tree(unit, keys), self.dispute(unit)
        first = dispute.subtree * SUBTREE_LEAVES
        is_first = dispute.stage is LeafDisputeStage.SUBTREES
        return tuple(subtrees if is_first else leaves[first : first + SUBTREE_LEAVES])

    def _bent(self, unit: bytes, answer: Answer) -> tuple[list[TreeNode], list[TreeNode]]:
        is_wrong = answer.lie in (Lie.LEAF, Lie.LEAVES, Lie.HIDDEN)
        right = leaves_for(unit, self.requests, answer.places if is_wrong else ())
        leaves = [node for at in range(subtree_count(self.requests)) for node in nodes_below(right, at)]
        for place in answer.places if answer.lie is Lie.TOKENS else ():
            leaves[place] = _more(leaves[place])
        parts = [leaves[at : at + SUBTREE_LEAVES] for at in range(0, self.requests, SUBTREE_LEAVES)]
        subtrees = [node for part in parts if (node := combined(part)) is not None]
        for place in answer.places if answer.lie is Lie.SUMS else ():
            subtrees[place // SUBTREE_LEAVES] = _more(subtrees[place // SUBTREE_LEAVES])
        return leaves, subtrees

    def played(self, unit: bytes) -> None:
        """Make blocks in which all show what they can, except hidden trees, until the dispute is over."""
        for _ in range(BLOCKS_MAX):
            if not self.is_disputed(unit):
                return
            is_asked = self.dispute(unit).stage is not LeafDisputeStage.JUDGED
            places = [place for place, answer in enumerate(self.bent) if is_asked and answer.lie is not Lie.HIDDEN]
            shown = [tolerant(self.shows(unit, place)) for place in places]
            self.chain.block(*shown, *self.voter_steps(), *self.leaving_steps(unit))
        raise AssertionError("a dispute without end")


def _more(node: TreeNode) -> TreeNode:
    return replace(node, tokens_out=node.tokens_out + 3)


def _lies(chance: random.Random, requests: int, racers: int) -> list[Answer]:
    """Return one right answer and some wrong ones, of which some are equal."""
    kinds = [lie for lie in Lie if lie is not Lie.NOTHING]
    found = []
    for _ in range(racers - 1):
        lie = chance.choice(kinds)
        count = min(requests, chance.randint(2, 70)) if lie is Lie.LEAVES else 1
        found.append(Answer(lie, tuple(sorted(chance.sample(range(requests), count)))))
    if racers > 2 and chance.random() < 0.2:
        found[0] = found[1]
    return chance.sample([Answer(), *found], racers)


@settings(max_examples=settings().max_examples // 5, deadline=None)
@given(seed=st.integers(0, 2**32), racers=st.integers(2, 4))
def test_however_racers_lie_who_is_right_is_paid_and_they_lose(seed: int, racers: int) -> None:
    chance = random.Random(seed)
    requests = chance.choice((chance.randint(CHECKED_FROM, 200), chance.randint(CHECKED_FROM, REQUESTS_MAX)))
    stage = BentChain(requests=requests, price=requests * PRICE_EACH)
    answers = _lies(chance, requests, racers)
    unit = stage.raced(*answers)
    owners = [racer.owner for racer in stage.unit(unit).racers]
    held = [racer.collateral for racer in stage.unit(unit).racers]
    before = [stage.owned(owner) for owner in owners]
    stage.played(unit)
    (claimed,) = stage.chain.happened(ResultClaimed)
    assert claimed.winner == owners[answers.index(Answer())]
    liars = [place for place, answer in enumerate(answers) if answer != Answer()]
    assert {event.provider for event in stage.chain.happened(ProviderSlashed)} == {owners[place] for place in liars}
    judges_may_earn = stage.chain.happened(LeafDisputed)
    assert judges_may_earn or [before[at] - stage.owned(owners[at]) for at in liars] == [held[at] for at in liars]


def test_tokens_beside_a_right_node_are_the_leaf_that_is_judged() -> None:
    stage = BentChain(requests=200)
    unit = stage.raced(Answer(), Answer(Lie.TOKENS, (150,)))
    liar = stage.racer(unit, 1).stash
    stage.played(unit)
    assert [event.leaf for event in stage.chain.happened(LeafDisputed)] == [150]
    assert [event.provider for event in stage.chain.happened(ProviderSlashed)] == [liar]


def test_sums_that_no_leaves_have_cannot_be_shown() -> None:
    """They hold down to the subtrees. No nodes below combine to them, and no court is needed."""
    for requests in (40, 200):
        stage = BentChain(requests=requests)
        unit = stage.raced(Answer(), Answer(Lie.SUMS, (requests - 1,)))
        liar = stage.racer(unit, 1)
        if requests > SUBTREE_LEAVES:
            stage.chain.block(stage.shows(unit, 0), stage.shows(unit, 1))
            stage.chain.block()
        stage.chain.block(refused(liar.provider, stage.nodes_call(unit, liar), WrongNodes))
        stage.played(unit)
        assert len(stage.chain.happened(TreeWithheld)) == 1
        assert not stage.chain.happened(LeafDisputed)
        assert [event.provider for event in stage.chain.happened(ProviderSlashed)] == [liar.stash]
        assert stage.unit(unit).state is UnitState.CLAIMED
