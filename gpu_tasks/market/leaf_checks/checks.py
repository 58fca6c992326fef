"""The records of checks: what a check is about, how far it is, which leaves were shown, who audits.

Always: what a check costs and how long its windows are is frozen when it opens; it has one auditor at a time, each
once, and one case before the courts at a time.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.leaf_draws import CHECKED_MAX
from gpu_tasks.market.courts.cases import EXCLUDED_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U32, U64, Bounded, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

LEAF_SEAT = HoldReason("LeafSeat", "What the auditor of a batch stands for; the case is the batch.")
LEAF_FEE = HoldReason("LeafFee", "What a customer set aside for the auditor of its batch, which is the case.")
LEAF_BOND = HoldReason("LeafBond", "What a customer stands for that calls a leaf of its batch wrong; the case is it.")
ANSWERERS_MAX = 8
AUDITORS_MAX = 3
"""So many are drawn one after the other; where none of them says anything, the check counts as passed."""
CALLED_MAX = 8
"""Who may be asked to audit is drawn with the leaves: so many, of whom some may lack what a seat takes by then."""


@named("ogpu::LeafStage")
class LeafStage(IntEnum):
    """How far a check is."""

    AWAITED = 0
    """Which leaves are looked at is not known yet."""
    SHOWING = 1
    """Who answered shows the paths of the leaves that are drawn."""
    CHECKING = 2
    """An auditor computes these leaves."""
    PROVING = 3
    """The auditor passed; the courts may look at what it passed with."""
    DOUBTED = 4
    """The courts judge a leaf."""
    OPEN = 5
    """Nobody doubts any more but the customer, who may dispute a leaf."""


@named("ogpu::LeafDuty")
class LeafDuty(IntEnum):
    """What somebody has to do for a check, the dearest to leave undone first."""

    NONE = 0
    SHOW = 1
    """Show the own leaves, or lose all that is held for the batch. In records of before, any of these."""
    STAND = 2
    """Appeal, if a verdict about what it said calls it a liar."""
    AUDIT = 3
    """Compute what was shown, or lose a fee."""


@named("ogpu::CheckOutcome")
class CheckOutcome(IntEnum):
    """How a check can end."""

    PASSED = 0
    """An auditor computed the leaves, and they are right."""
    UNLOOKED = 1
    """No auditor said anything that stands: the settlement does."""
    REFUTED = 2
    """A leaf was found wrong."""
    WITHHELD = 3
    """Nobody showed the leaves."""


@struct
class Answerer:
    """Who answered with the root that was settled: it stands for that, and any of them may show the leaves."""

    account: AccountId
    held: Balance


@struct
class CheckTerms:
    """What a handler says of a check when it opens it."""

    handler: U8
    """The index of the pallet whose batch it is."""
    customer: AccountId
    output_root: Hash
    requests: U32
    allowed: U64
    """The tokens that the price is for, as tokens that are written."""
    input_share: U32
    price: Balance
    """What was paid for the batch."""
    collateral: Balance
    """What who answered stood for when it was drawn."""
    fee: Balance
    """What an auditor is paid; so much is held of the customer for the check."""
    judge_fee: Balance
    """What each judge of a leaf is paid."""
    rate_ppm: U32
    """The chance that the courts look at what an auditor passed with."""
    sealed_at: BlockNumber
    run_blocks: BlockNumber
    excluded: Annotated[tuple[AccountId, ...], Bounded(EXCLUDED_MAX)]
    answerers: Annotated[tuple[Answerer, ...], Bounded(ANSWERERS_MAX)]


@struct
class CheckWindows:
    """The windows of a check, as the parameters were when it opened."""

    show: BlockNumber
    check: BlockNumber
    dispute: BlockNumber


@struct
class ShownLeaf:
    """A drawn leaf: its place, and what was shown of it (sum_tree.path_claim)."""

    index: U32
    claim: Hash


@struct
class LeafDoubt:
    """A leaf that somebody calls wrong: what was shown of it, and what the doubter found (sum_tree.leaf_claim)."""

    doubter: AccountId
    shown: ShownLeaf
    found: Hash


@struct
class LeafCheck:
    """A check as it stands."""

    terms: CheckTerms
    windows: CheckWindows
    recorded_at: BlockNumber
    """Points and auditors are drawn by the beacon of two blocks after this one."""
    stage: LeafStage = LeafStage.AWAITED
    seed: Hash | None = None
    deadline: BlockNumber = 0
    """The last block of the window that is open; 0 while none is."""
    called: Annotated[tuple[AccountId, ...], Bounded(CALLED_MAX)] = ()
    """Who is asked to audit, in this order, unless it has not what a seat takes: drawn with the leaves."""
    shown: Annotated[tuple[ShownLeaf, ...], Bounded(CHECKED_MAX)] = ()
    """Each drawn leaf once, in the order drawn."""
    drawn: Annotated[tuple[AccountId, ...], Bounded(AUDITORS_MAX)] = ()
    """Every auditor so far."""
    silent: Annotated[tuple[AccountId, ...], Bounded(AUDITORS_MAX)] = ()
    """Those who said nothing: each holds a fee until the check ends."""
    auditor: AccountId | None = None
    """Whose word is awaited, or stands."""
    proof: Hash | None = None
    """What the auditor passed with."""
    doubt: LeafDoubt | None = None
    case: Hash | None = None
    """What the courts look at now."""
    cases: U8 = 0
    """How many cases there were."""


def check_case(unit: bytes, number: int) -> bytes:
    """The id of a check's case number `number`, counted from 0."""
    return blake2_256(b"ogpu/leaf-case" + unit + number.to_bytes(4, "little"))


def is_shown(check: LeafCheck, index: int) -> bool:
    """Whether the leaf was drawn: who passed has said that it is right."""
    return any(leaf.index == index for leaf in check.shown)
