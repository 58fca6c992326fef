"""The records of checks: the terms of a check, its stage, the shown leaves, the auditors.

Invariants: costs and windows of a check are frozen when it opens. It has one auditor at a time, each at most once, and
one case before the courts at a time.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.leaf_draws import CHECKED_MAX
from gpu_tasks.market.courts.cases import EXCLUDED_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U32, U64, Bounded, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

LEAF_SEAT = HoldReason("LeafSeat", "The bond of a batch's auditor. One for each batch.")
LEAF_FEE = HoldReason("LeafFee", "The customer's prepayment for the auditor of its batch. One for each batch.")
LEAF_BOND = HoldReason("LeafBond", "The customer's bond for its dispute of a leaf of its batch. One for each dispute.")
ANSWERERS_MAX = 8
AUDITORS_MAX = 3
"""The most auditors, one after another. If all of them are silent, the batch counts as passed."""
CALLED_MAX = 8
"""The number of possible auditors drawn with the leaves. Some of them may lack the grains for a seat by then."""


@named("ogpu::LeafStage")
class LeafStage(IntEnum):
    """The stage of a check."""

    AWAITED = 0
    """The leaves are not drawn yet."""
    SHOWING = 1
    """An answerer must show the paths of the drawn leaves."""
    CHECKING = 2
    """An auditor computes these leaves."""
    PROVING = 3
    """The auditor found no wrong leaf. The courts may audit its work."""
    DOUBTED = 4
    """The courts judge a leaf."""
    OPEN = 5
    """Only the customer may still dispute a leaf."""


@named("ogpu::LeafDuty")
class LeafDuty(IntEnum):
    """A duty in a check, the costliest to omit first."""

    NONE = 0
    SHOW = 1
    """Show the own leaves, or lose the whole hold for the batch. In old records, any of these duties."""
    STAND = 2
    """Appeal if a verdict calls the own statement a lie."""
    AUDIT = 3
    """Compute the shown leaves, or lose a fee."""


@named("ogpu::CheckOutcome")
class CheckOutcome(IntEnum):
    """The outcome of a check."""

    PASSED = 0
    """An auditor computed the leaves, and they are right."""
    UNLOOKED = 1
    """No auditor gave a valid answer, so the settlement remains."""
    REFUTED = 2
    """A leaf was found wrong."""
    WITHHELD = 3
    """No answerer showed the leaves."""


@struct
class Answerer:
    """A racer that answered with the settled root. It is liable for the root, and any answerer may show the leaves."""

    account: AccountId
    held: Balance


@struct
class CheckTerms:
    """A handler's terms of a check at its opening."""

    handler: U8
    """The index of the pallet with the batch."""
    customer: AccountId
    output_root: Hash
    requests: U32
    allowed: U64
    """The work that the price pays for, in output tokens."""
    input_share: U32
    price: Balance
    """The price paid for the batch."""
    collateral: Balance
    """The collateral of an answerer when it was drawn."""
    fee: Balance
    """The fee of an auditor. The customer holds this amount for the check."""
    judge_fee: Balance
    """The fee of each judge of a leaf."""
    rate_ppm: U32
    """The chance that the courts audit an auditor's pass."""
    sealed_at: BlockNumber
    run_blocks: BlockNumber
    excluded: Annotated[tuple[AccountId, ...], Bounded(EXCLUDED_MAX)]
    answerers: Annotated[tuple[Answerer, ...], Bounded(ANSWERERS_MAX)]


@struct
class CheckWindows:
    """The windows of a check, by the parameters at its opening."""

    show: BlockNumber
    check: BlockNumber
    dispute: BlockNumber


@struct
class ShownLeaf:
    """A drawn leaf: its place, and the claim shown for it (`sum_tree.path_claim`)."""

    index: U32
    claim: Hash


@struct
class LeafDoubt:
    """A disputed leaf: the shown claim, and the doubter's claim (`sum_tree.leaf_claim`)."""

    doubter: AccountId
    shown: ShownLeaf
    found: Hash


@struct
class LeafCheck:
    """The record of an open check."""

    terms: CheckTerms
    windows: CheckWindows
    recorded_at: BlockNumber
    """The beacon of two blocks after this one draws points and auditors."""
    stage: LeafStage = LeafStage.AWAITED
    seed: Hash | None = None
    deadline: BlockNumber = 0
    """The last block of the open window, or 0 without one."""
    called: Annotated[tuple[AccountId, ...], Bounded(CALLED_MAX)] = ()
    """Possible auditors, drawn with the leaves, in the order in which they are asked."""
    shown: Annotated[tuple[ShownLeaf, ...], Bounded(CHECKED_MAX)] = ()
    """Each drawn leaf once, in the order drawn."""
    drawn: Annotated[tuple[AccountId, ...], Bounded(AUDITORS_MAX)] = ()
    """All auditors so far."""
    silent: Annotated[tuple[AccountId, ...], Bounded(AUDITORS_MAX)] = ()
    """Silent auditors. Each holds a fee until the check ends."""
    auditor: AccountId | None = None
    """The current auditor, or the one whose answer is valid."""
    proof: Hash | None = None
    """The proof of the auditor's pass."""
    doubt: LeafDoubt | None = None
    case: Hash | None = None
    """The current case before the courts."""
    cases: U8 = 0
    """The number of cases so far."""


def check_case(unit: bytes, number: int) -> bytes:
    """Return the id of a check's case number `number`, counted from 0."""
    return blake2_256(b"ogpu/leaf-case" + unit + number.to_bytes(4, "little"))


def is_shown(check: LeafCheck, index: int) -> bool:
    """Return True if the leaf was drawn, so an auditor that passed has confirmed it."""
    return any(leaf.index == index for leaf in check.shown)
