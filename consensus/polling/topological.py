"""Snowflake along a chain: one poll votes for a block and all its ancestors at once.

Invariant: `accepted` descends from the final block and moves only forward, except when finality overrules it.

`root` is the last block on the preferred branch with all decisions below it made. Polls are about the blocks above it,
up to the height `ceiling`: the blocks of a later epoch wait for that epoch's set. The newest notarised checkpoint
(`lock`) overrides votes: the preference always descends from it. After avalanchego `snowman/topological.go`.
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
        """Start at a final block, which is accepted too. Polls decide up to the height `ceiling`."""
        self.tree = tree
        self.thresholds = thresholds
        self.ceiling = ceiling
        self.accepted = self.root = self.preference = tree.final.id
        self.lock: bytes | None = None
        self._instances: dict[bytes, Snowflake] = {}

    # --- queries

    @property
    def is_processing(self) -> bool:
        """True if polls may decide about some undecided block."""
        return self.preference != self.root and self._decides_children(self.root)

    def count_processing(self) -> int:
        """Return the number of undecided blocks on the preferred branch."""
        return self.tree[self.preference].height - self.tree[self.root].height

    def preferred_at(self, height: int) -> bytes:
        """Return the block of the preferred branch at a height. Above its tip, return the tip."""
        return self.tree.ancestor_at(self.preference, height)

    def confidence(self, block: bytes) -> tuple[tuple[Condition, int], ...]:
        """Return each condition of acceptance, and the polls in a row that met it. () unless the block is preferred."""
        instance = self._instances.get(self.tree[block].parent) if block in self.tree else None
        if instance is None or instance.preference != block:
            return ()
        return tuple(zip(self.thresholds.conditions, instance.confidence, strict=True))

    # --- changes

    def insert(self, facts: BlockFacts) -> bool:
        """Add a block. Return False if it is known or dead."""
        if not self.tree.add(facts):
            return False
        instance = self._instances.get(facts.parent)
        if instance is None:
            self._instances[facts.parent] = Snowflake(self.thresholds, facts.id)
        else:
            instance.add(facts.id)
        self._follow_lock()
        self._update_preference()
        return True

    def record(self, votes: Iterable[tuple[bytes, int]]) -> bool:
        """Apply a poll: (voted block, weight) pairs. Return True if it raised confidence."""
        weights = self._transitive(votes)
        successful = False
        parent = self.root
        while True:
            instance = self._instances.get(parent)
            if instance is None or not self._decides_children(parent):
                break
            child_weights = {child: weights[child] for child in self.tree.children[parent] if child in weights}
            successful = instance.record(child_weights) or successful
            winners = [child for child, weight in child_weights.items() if weight >= self.thresholds.preference]
            # A poll that missed a branch interrupts that branch's polls in a row.
            for child in self.tree.children[parent]:
                if child not in winners:
                    self._reset_above(child)
            if not winners:
                break
            parent = winners[0]
        self._follow_lock()
        self._update_preference()
        return successful

    def support(self, votes: Iterable[tuple[bytes, int]]) -> int:
        """Return the greatest weight of a child of the root in these votes."""
        weights = self._transitive(votes)
        return max((weights.get(child, 0) for child in self.tree.children[self.root]), default=0)

    def is_settled(self, votes: Iterable[tuple[bytes, int]], missing_weight: int) -> bool:
        """Return True if no further votes of `missing_weight` can change a poll's outcome.

        That holds if adding `missing_weight` lifts no sum of votes over a threshold, at any bit of any undecided
        decision.
        """
        weights = self._transitive(votes)
        limits = (self.thresholds.preference, *(condition.alpha for condition in self.thresholds.conditions))
        pending_parents = [self.root]
        for parent in pending_parents:
            if not self._decides_children(parent):
                continue
            children = sorted(self.tree.children[parent])
            if any(
                _can_cross(total, missing_weight, limits)
                for total in _run_sums([weights.get(child, 0) for child in children])
            ):
                return False
            # The poll ends at a child below the preference threshold: nothing above that child counts.
            pending_parents.extend(child for child in children if weights.get(child, 0) >= self.thresholds.preference)
        return True

    def lock_on(self, block_id: bytes) -> None:
        """Force the preference through a newly notarised checkpoint, known or not yet."""
        self.lock = block_id
        self._follow_lock()
        self._update_preference()

    def prefer(self, block_id: bytes) -> None:
        """Force the preference through a known block, without confidence (after a restart)."""
        self._force_preference(block_id)
        self._follow_lock()
        self._update_preference()

    def finalise(self, block: bytes) -> tuple[tuple[bytes, ...], bytes | None]:
        """Make a known block final.

        Return the new final blocks, oldest first, and the accepted block that finality thereby overrules, or None.
        """
        overruled = None
        # Soft acceptance is not safe while the network is asynchronous, so finality overrules it.
        if not self.tree.is_related(self.accepted, block):
            overruled = self.accepted
        if overruled is not None or not self.tree.descends(self.accepted, block):
            self.accepted = block
        self._force_preference(block)
        path = self.tree.finalise(block)
        self._instances = {parent: instance for parent, instance in self._instances.items() if parent in self.tree}
        if self.lock is not None and self.lock not in self.tree:
            self.lock = None
        self._update_preference()
        return path, overruled

    def restart_confidence(self, thresholds: Thresholds, ceiling: int = NO_CEILING) -> None:
        """Reset the confidence in undecided blocks, because other validators vote, up to another height."""
        self.thresholds = thresholds
        self.ceiling = ceiling
        # Decisions stay: only finality reverts an accepted block.
        for parent, instance in list(self._instances.items()):
            if not instance.decided:
                self._rebuild_instance(parent, instance.preference)
        self._update_preference()

    # --- rules

    def _decides_children(self, parent: bytes) -> bool:
        """Return True if the current set decides which child of a block is accepted."""
        # Otherwise a set that is not active yet, or no longer, could have its successor's blocks accepted by withdrawn
        # stake.
        return self.tree[parent].height < self.ceiling

    def _transitive(self, votes: Iterable[tuple[bytes, int]]) -> Mapping[bytes, int]:
        """Return the weights of the voted blocks above the root, each including its descendants' votes."""
        root_height = self.tree[self.root].height
        direct_weights: dict[bytes, int] = {}
        for block_id, weight in votes:
            direct_weights[block_id] = direct_weights.get(block_id, 0) + weight
        subtree_weights: dict[bytes, int] = {}
        for block_id, weight in direct_weights.items():
            facts = self.tree[block_id]
            while facts.height > root_height:
                subtree_weights[facts.id] = subtree_weights.get(facts.id, 0) + weight
                facts = self.tree[facts.parent]
        return subtree_weights

    def _reset_above(self, block_id: bytes) -> None:
        """Mark everything undecided above a block that a poll missed, so that its counters start at 0 again."""
        pending_parents = [block_id]
        for parent in pending_parents:
            instance = self._instances.get(parent)
            if instance is not None:
                instance.falter()
                pending_parents.extend(self.tree.children[parent])

    def _follow_lock(self) -> None:
        if self.lock is not None and self.lock in self.tree:
            self._force_preference(self.lock)

    def _force_preference(self, block_id: bytes) -> None:
        """Turn every decision between the final block and `block_id` towards it, with confidence 0."""
        while block_id != self.tree.final.id:
            parent = self.tree[block_id].parent
            if self._instances[parent].preference != block_id:
                self._rebuild_instance(parent, block_id)
            block_id = parent

    def _rebuild_instance(self, parent: bytes, preferred: bytes) -> None:
        instance = Snowflake(self.thresholds, preferred)
        for child in self.tree.children[parent]:
            instance.add(child)
        self._instances[parent] = instance

    def _update_preference(self) -> None:
        """Update `accepted`, `root` and `preference`.

        Follow the decisions up from the final block, then the preferences.
        """
        block_id = self.tree.final.id
        while (instance := self._instances.get(block_id)) is not None and instance.decided:
            child = instance.preference
            if block_id == self.accepted:
                self.accepted = child
            block_id = child
        self.root = block_id
        while (instance := self._instances.get(block_id)) is not None:
            block_id = instance.preference
        self.preference = block_id


def _run_sums(weights: Sequence[int]) -> set[int]:
    """Return the sums over consecutive children in the order of ids, 0 among them.

    Siblings that share a prefix are consecutive, so these include every sum that a bit can count.
    """
    run_sums = {0}
    for start_index in range(len(weights)):
        run_sums.update(accumulate(weights[start_index:]))
    return run_sums


def _can_cross(total_weight: int, missing_weight: int, limits: Iterable[int]) -> bool:
    return any(total_weight < limit <= total_weight + missing_weight for limit in limits)
