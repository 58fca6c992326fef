"""What was right of a batch, what was told of it, and what the beacon drew: reckoned anew, beside the chain."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from devnet.proofs.batch_cheats.scenes import BatchScene
from devnet.proofs.batch_cheats.traces import CheckTrace
from devnet.proofs.cheating.__main__ import LIES
from devnet.proofs.cheating.lies import RightAnswers, ToldBatch, drawn_paths, told_with
from devnet.proofs.cheating.lying_daemons import told_about
from gpu_tasks.batches.leaf_draws import covers, leaves_to_check, weight_floor
from gpu_tasks.batches.sum_tree import LeafPath, before, leaf_claim, path_claim
from gpu_tasks.batches.work import TOKEN, work_of
from gpu_tasks.market.leaf_checks.checks import CheckTerms, ShownLeaf
from gpu_tasks.market.leaf_checks.proofs import leaves_proof


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One batch of a scene."""

    scene: BatchScene
    right: RightAnswers
    trace: CheckTrace
    lazy: frozenset[bytes] = frozenset()
    """Who passes without a look."""

    @property
    def told(self) -> ToldBatch:
        """What its racers state in this scene: it follows from what is right."""
        lie = LIES.get(self.scene.mode or "")
        return told_with(self.right, {}) if lie is None else told_about(lie, self.right)

    def drawn(self) -> list[LeafPath | None]:
        """Of each point that the beacon drew the path that there is for it."""
        drawn, terms = self.trace.drawn, self.terms
        assert drawn is not None, "a batch that is settled has leaves drawn"
        return drawn_paths(self.told, drawn.seed, self.trace.unit, _floor(terms), terms.input_share)

    def shown(self) -> tuple[ShownLeaf, ...]:
        """Each drawn leaf once, as it can be shown; none where a point has no path, or all are kept back."""
        drawn = self.drawn()
        paths = [path for path in drawn if path is not None]
        if self.scene.hides or len(paths) < len(drawn):
            return ()
        return tuple(dict.fromkeys(ShownLeaf(path.index, path_claim(path)) for path in paths))

    def is_right(self, leaf: ShownLeaf) -> bool:
        """Whether who computes that leaf finds what was shown."""
        return leaf.claim == self.right_claim(leaf.index)

    def right_claim(self, index: int) -> bytes:
        """What must be said of a leaf."""
        return leaf_claim(index, self.right.leaves[index])

    def wrong_outputs(self) -> list[int]:
        """The leaves whose outputs are others, as the customer finds."""
        pairs = enumerate(zip(self.told.outcomes, self.right.outcomes, strict=True))
        return [index for index, (said, true) in pairs if said != true]

    def right_proof(self, auditor: bytes) -> bytes:
        """With what an auditor passes that has computed the drawn leaves, and found them right."""
        right, leaves = self.right, self.right.leaves
        digests = [leaves[leaf.index].digest for leaf in self.shown()]
        return leaves_proof(right.genesis, right.unit, auditor, right.salt, digests)

    def chance(self) -> Fraction:
        """With what chance a point of the draw falls on a lie, or on something that cannot be shown."""
        if self.scene.hides:
            return Fraction(1)
        terms, totals, told = self.terms, self.told.totals, self.told
        floor, share = _floor(terms), terms.input_share
        sound = 0
        for path in told.paths:
            weight = work_of(share, path.tokens_in, path.tokens_out + floor)
            start = work_of(share, *_before(told, path, floor))
            holds = covers(totals, floor, path, start, input_share=share)
            sound += weight if holds and path_claim(path) == self.right_claim(path.index) else 0
        line = work_of(share, totals.tokens_in, totals.tokens_out) + totals.requests * floor * TOKEN
        return 1 - Fraction(sound, line) ** leaves_to_check(totals.requests)

    @property
    def terms(self) -> CheckTerms:
        """Of the check."""
        assert self.trace.terms is not None, "a batch that is settled has a check"
        return self.trace.terms


def _floor(terms: CheckTerms) -> int:
    return weight_floor(terms.allowed, terms.requests)


def _before(told: ToldBatch, path: LeafPath, floor: int) -> tuple[int, int]:
    """Tokens in, and tokens out with the floor of each, of all leaves before that of a path."""
    tokens_in, tokens_out = before(told.totals, path)
    return tokens_in, tokens_out + path.index * floor
