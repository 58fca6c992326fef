"""Snowflake along a chain: one poll votes for a block and all its ancestors at once.

Always: `accepted` descends from the final block and moves only forward, except when finality
overrules it. `root` is the last block below which every decision is made, on the preferred
branch; polls are about the blocks above it, up to `ceiling`: a later epoch's blocks wait for its
set. The newest notarised checkpoint (`lock`) overrides votes: the preference always goes through
it. After avalanchego `snowman/topological.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from consensus.blocktree import BlockTree
from consensus.events import BlockFacts
from consensus.parameters import Condition, Thresholds
from consensus.polling.snowflake import Snowflake

NO_CEILING = 2**32  # above every height


class Topological:
    """The soft state of the chain above the last final block."""

    def __init__(self, tree: BlockTree, thresholds: Thresholds, ceiling: int = NO_CEILING) -> None:
        """Start at a final block, which is accepted too. Up to the height `ceiling` polls decide."""
        self.tree = tree
        self.thresholds = thresholds
        self.ceiling = ceiling
        self.accepted = self.root = self.preference = tree.final.id
        self.lock: bytes | None = None
        self._instances: dict[bytes, Snowflake] = {}

    # --- what others ask

    @property
    def is_processing(self) -> bool:
        """Whether some block waits to be decided, and may be."""
        return self.preference != self.root and self._is_open(self.root)

    def count_processing(self) -> int:
        """How many blocks of the preferred branch are undecided."""
        return self.tree[self.preference].height - self.tree[self.root].height

    def preferred_at(self, height: int) -> bytes:
        """The block of the preferred branch at a height, or its nearest end."""
        return self.tree.ancestor_at(self.preference, height)

    def confidence(self, block: bytes) -> tuple[tuple[Condition, int], ...]:
        """Each condition of acceptance and the polls in a row that met it for a preferred block; () for others."""
        instance = self._instances.get(self.tree[block].parent) if block in self.tree else None
        if instance is None or instance.preference != block:
            return ()
        return tuple(zip(self.thresholds.conditions, instance.confidence, strict=True))

    # --- what changes it

    def insert(self, facts: BlockFacts) -> bool:
        """Add a block; False if it is known or dead."""
        if not self.tree.add(facts):
            return False
        instance = self._instances.get(facts.parent)
        if instance is None:
            self._instances[facts.parent] = Snowflake(self.thresholds, facts.id)
        else:
            instance.add(facts.id)
        self._follow_lock()
        self._settle()
        return True

    def record(self, votes: Iterable[tuple[bytes, int]]) -> bool:
        """Apply a poll: (voted block, weight) pairs. Returns whether it raised confidence."""
        weights = self._transitive(votes)
        successful = False
        parent = self.root
        while True:
            instance = self._instances.get(parent)
            if instance is None or not self._is_open(parent):
                break
            children = {child: weights[child] for child in self.tree.children[parent] if child in weights}
            successful = instance.record(children) or successful
            winners = [child for child, weight in children.items() if weight >= self.thresholds.preference]
            # "Polls in a row" means in a row: a branch that this poll passed by has no such polls any more.
            for child in self.tree.children[parent]:
                if child not in winners:
                    self._falter(child)
            if not winners:
                break
            parent = winners[0]
        self._follow_lock()
        self._settle()
        return successful

    def support(self, votes: Iterable[tuple[bytes, int]]) -> int:
        """The most weight that a child of the root has in these votes."""
        weights = self._transitive(votes)
        return max((weights.get(child, 0) for child in self.tree.children[self.root]), default=0)

    def is_settled(self, votes: Iterable[tuple[bytes, int]], missing: int) -> bool:
        """Whether a poll's outcome is the same whatever votes of `missing` weight would still say.

        No sum of votes that any bit of any undecided decision can see may stand within `missing` below a threshold.
        """
        weights = self._transitive(votes)
        limits = (self.thresholds.preference, *(condition.alpha for condition in self.thresholds.conditions))
        pending = [self.root]
        for parent in pending:
            if not self._is_open(parent):
                continue
            children = sorted(self.tree.children[parent])
            if any(
                _can_cross(total, missing, limits) for total in _run_sums([weights.get(child, 0) for child in children])
            ):
                return False
            # What fewer than the preference vote for ends here, and nothing above it is looked at.
            pending.extend(child for child in children if weights.get(child, 0) >= self.thresholds.preference)
        return True

    def lock_on(self, block: bytes) -> None:
        """Force the preference through a newly notarised checkpoint, known or not yet."""
        self.lock = block
        self._follow_lock()
        self._settle()

    def prefer(self, block: bytes) -> None:
        """Force the preference through a known block, without confidence (after a restart)."""
        self._force(block)
        self._follow_lock()
        self._settle()

    def finalise(self, block: bytes) -> tuple[tuple[bytes, ...], bytes | None]:
        """Make a known block final.

        Returns the new final blocks, oldest first, and the accepted block if it is thereby overruled.
        """
        overruled = None
        # Soft acceptance is not safe while the network is asynchronous: finality has the last word.
        if not self.tree.is_related(self.accepted, block):
            overruled = self.accepted
        if overruled is not None or not self.tree.descends(self.accepted, block):
            self.accepted = block
        self._force(block)
        path = self.tree.finalise(block)
        self._instances = {parent: made for parent, made in self._instances.items() if parent in self.tree}
        if self.lock is not None and self.lock not in self.tree:
            self.lock = None
        self._settle()
        return path, overruled

    def restart_confidence(self, thresholds: Thresholds, ceiling: int = NO_CEILING) -> None:
        """Other validators vote from now on, up to another height: undecided blocks begin to collect anew."""
        self.thresholds = thresholds
        self.ceiling = ceiling
        # What was decided stays so: accepted blocks are taken back by finality alone.
        for parent, instance in list(self._instances.items()):
            if not instance.decided:
                self._rebuild(parent, instance.preference)
        self._settle()

    # --- the rules behind it

    def _is_open(self, parent: bytes) -> bool:
        """Whether those who vote now have a say in which child of a block is accepted."""
        # A set that is not in office yet, or is no more, would have its successor's blocks accepted by stake long gone.
        return self.tree[parent].height < self.ceiling

    def _transitive(self, votes: Iterable[tuple[bytes, int]]) -> Mapping[bytes, int]:
        """Weights of the voted blocks above the root, each with its descendants' votes."""
        base = self.tree[self.root].height
        direct: dict[bytes, int] = {}
        for block, weight in votes:
            direct[block] = direct.get(block, 0) + weight
        weights: dict[bytes, int] = {}
        for block, weight in direct.items():
            facts = self.tree[block]
            while facts.height > base:
                weights[facts.id] = weights.get(facts.id, 0) + weight
                facts = self.tree[facts.parent]
        return weights

    def _falter(self, block: bytes) -> None:
        """A poll passed this block by: everything undecided above it begins anew."""
        pending = [block]
        for parent in pending:
            instance = self._instances.get(parent)
            if instance is not None:
                instance.falter()
                pending.extend(self.tree.children[parent])

    def _follow_lock(self) -> None:
        if self.lock is not None and self.lock in self.tree:
            self._force(self.lock)

    def _force(self, block: bytes) -> None:
        """Turn every decision between the final block and `block` towards it, confidence 0."""
        while block != self.tree.final.id:
            parent = self.tree[block].parent
            if self._instances[parent].preference != block:
                self._rebuild(parent, block)
            block = parent

    def _rebuild(self, parent: bytes, preferred: bytes) -> None:
        instance = Snowflake(self.thresholds, preferred)
        for child in self.tree.children[parent]:
            instance.add(child)
        self._instances[parent] = instance

    def _settle(self) -> None:
        """Follow the decisions up from the final block, then the preferences."""
        block = self.tree.final.id
        while (instance := self._instances.get(block)) is not None and instance.decided:
            child = instance.preference
            if block == self.accepted:
                self.accepted = child
            block = child
        self.root = block
        while (instance := self._instances.get(block)) is not None:
            block = instance.preference
        self.preference = block


def _run_sums(weights: Sequence[int]) -> set[int]:
    """Sums over neighbours in the order of ids: whatever siblings share a prefix stand side by side. 0 among them."""
    sums = {0}
    for start in range(len(weights)):
        sums.update(accumulate(weights[start:]))
    return sums


def _can_cross(total: int, missing: int, limits: Iterable[int]) -> bool:
    return any(total < limit <= total + missing for limit in limits)
