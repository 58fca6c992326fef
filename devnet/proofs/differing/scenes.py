"""What is tried: a batch of one subtree and one of several, a kill between the two steps, and a tree that is hidden."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DifferingScene:
    """One batch, and what its liar does."""

    name: str
    title: str
    mode: str
    """Of the cheating daemon."""
    requests: int
    is_judged: bool = True
    """Whether a court computes the leaf; else nobody does, since there is but one tree."""
    away_blocks: int = 0
    """For so many blocks the honest daemon is away, killed with -9 when trees are asked for; 0 if it is not."""

    @property
    def waits(self) -> bool:
        """Whether a side stays away long enough to ask programs what they say meanwhile."""
        return bool(self.away_blocks) or not self.is_judged


SCENES = (
    DifferingScene("one-subtree", "64 requests, one of them answered wrongly: the leaves are shown", "bent-middle", 64),
    DifferingScene(
        "subtrees", "200 requests, one answered wrongly; the honest daemon is killed with -9 when trees are asked for",
        "bent-middle", 200, away_blocks=20,
    ),
    DifferingScene(
        "hidden-tree", "64 requests, one answered wrongly, and the liar shows nothing: no court sits",
        "hidden-tree", 64, is_judged=False,
    ),
)  # fmt: skip
