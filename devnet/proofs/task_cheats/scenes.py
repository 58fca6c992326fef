"""What is tried about a task, by whom, and what has to come of it: each scene is data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from devnet.proofs.task_cheats.orders import TaskSize
from gpu_tasks.market.training.money import TaskOutcome


class TaskCustomer(Enum):
    """What the customer does with its task."""

    ACCEPTS = auto()
    """It holds each checkpoint, and accepts what it could fetch and check."""
    DISPUTES = auto()
    """It holds each checkpoint, and disputes the result."""
    COMPUTES = auto()
    """It holds each checkpoint, computes the run itself, and disputes the segment that is wrong."""
    SILENT = auto()
    """It submits, and signs nothing any more."""
    LEAVES_IT = auto()
    """It holds each checkpoint; whether the result is right it leaves to others."""


class Stranger(Enum):
    """What is tried by transactions alone."""

    NOBODY = auto()
    COPIES_BID = auto()
    NEVER_OPENS = auto()
    PROVES = auto()
    """No cheat: somebody computes the run, and shows where it is wrong (`ogpu-provider prove`)."""
    STEALS_PROOF = auto()


@dataclass(frozen=True, slots=True)
class CheatScene:
    """A task and who cheats about it."""

    name: str
    title: str
    slots: tuple[tuple[str, TaskOutcome], ...]
    """Who has each slot that was ever awarded, and how it ends, in the order of the blocks."""
    mode: str = "honest"
    """Of the provider that cheats."""
    bidders: tuple[str, ...] = ()
    """The honest ones."""
    customer: TaskCustomer = TaskCustomer.ACCEPTS
    stranger: Stranger = Stranger.NOBODY
    lazy_judge: str = ""
    cheats: tuple[str, ...] = ("Eve",)
    """Who may lose something."""
    taken: tuple[str, ...] = ()
    """What is taken of a cheat, in the order of the blocks."""
    size: TaskSize = field(default_factory=TaskSize)

    is_refused: bool = False
    """Whether something is sent that the chain has to refuse."""

    @property
    def cheat_bids(self) -> bool:
        """Whether the cheat wants the task."""
        return self.mode != "honest"


SCENES = (
    CheatScene(
        "bit-in-one-weight",
        "One bit in one weight of one training step; the customer computes the run, and disputes that segment",
        (("Eve", TaskOutcome.LIED),),
        mode="bit-in-one-weight",
        customer=TaskCustomer.COMPUTES,
        taken=("LIED",),
        size=TaskSize(steps=600),
    ),
    CheatScene(
        "skipped-tenth",
        "A tenth of the steps is skipped; somebody computes the run, and proves it",
        (("Eve", TaskOutcome.LIED),),
        mode="skipped-tenth",
        customer=TaskCustomer.LEAVES_IT,
        stranger=Stranger.PROVES,
        taken=("LIED", "a fraud proof"),
        size=TaskSize(steps=100),
    ),
    CheatScene(
        "replayed-milestone",
        "A milestone is stated again, and again under the next number",
        (("Eve", TaskOutcome.DIED), ("Alice", TaskOutcome.ON_TIME)),
        mode="replayed-milestone",
        bidders=("Alice",),
        taken=("DIED",),
        size=TaskSize(steps=60, milestones=3, blocks=60),
        is_refused=True,
    ),
    CheatScene(
        "copied-bid",
        "A rival's sealed bid is copied, and opened with what the rival opens",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        stranger=Stranger.COPIES_BID,
        taken=("NOT_REVEALED",),
        is_refused=True,
    ),
    CheatScene(
        "unrevealed-bid",
        "A bid is committed to and never opened",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        stranger=Stranger.NEVER_OPENS,
        taken=("NOT_REVEALED",),
    ),
    CheatScene(
        "stolen-proof",
        "A fraud proof is stolen out of the pool, by who pays to be first in the block",
        (("Eve", TaskOutcome.LIED),),
        mode="skipped-tenth",
        customer=TaskCustomer.LEAVES_IT,
        stranger=Stranger.STEALS_PROOF,
        cheats=("Charlie", "Dave", "Eve"),
        taken=("LIED", "a fraud proof"),
        size=TaskSize(steps=100),
        is_refused=True,
    ),
    CheatScene(
        "lazy-judge",
        "A judge seconds a lie without a look at it",
        (("Eve", TaskOutcome.LIED),),
        mode="bit-in-one-weight",
        customer=TaskCustomer.DISPUTES,
        lazy_judge="Charlie",
        cheats=("Charlie", "Eve"),
        taken=("LIED",),
    ),
    CheatScene(
        "false-dispute",
        "A customer disputes a right result",
        (("Alice", TaskOutcome.DISPUTED_FALSELY),),
        bidders=("Alice", "Bob"),
        customer=TaskCustomer.DISPUTES,
        cheats=("Ferdie",),
    ),
    CheatScene(
        "silent-customer",
        "A customer signs nothing any more",
        (("Alice", TaskOutcome.ACCEPTED_BY_SILENCE),),
        bidders=("Alice",),
        customer=TaskCustomer.SILENT,
        cheats=("Ferdie",),
    ),
    CheatScene(
        "withheld-checkpoint",
        "Checkpoints, result and states are shown to nobody; the customer disputes",
        (("Eve", TaskOutcome.LIED),),
        mode="withheld-checkpoint",
        customer=TaskCustomer.DISPUTES,
        taken=("LIED",),
        size=TaskSize(steps=200),
    ),
)
