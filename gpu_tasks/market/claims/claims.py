"""The records of claims: a result with its terms, the drawn points, and its checks.

Invariants: rate, fees and collateral of a claim are frozen when it opens. It has at most one open check and one open
dispute at a time. A validator checks a claim at most once.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.claims.disputes import EXCLUDED_MAX
from gpu_tasks.market.claims.findings import POINTS_DRAWN_MAX, Finding, Samples
from runtime.encoding.codec import U8, U32, U64, Bounded, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

SECOND_PPM = 250_000
"""The chance of a second check, by a checker that the beacon draws after the first one has opened."""
REPLACEMENTS = 2
"""The checkers that replace a silent or conceding one."""
FAILURES_MAX = 2
"""After this many replaced checkers of one draw, voters compute instead."""
CHECKS_MAX = 2 * (1 + REPLACEMENTS * FAILURES_MAX)
DISPUTES_MAX = 16
"""After this many disputes of a claim, no account may open another one. Each false one costs more than F."""

CHECKER_BOND = HoldReason(
    "CheckerBond", "A checker's collateral, from its draw to the end of the claim. One for each claim."
)
DISPUTE_BOND = HoldReason(
    "DisputeBond", "The bond of an account that disputes an item of a claim, lost if the item is right. One a dispute."
)


@named("ogpu::ClaimStage")
class ClaimStage(IntEnum):
    """The stage of a claim: the next actor, or the next event."""

    DRAWING = 0
    """The beacons that draw points are not final yet."""
    CALLING = 1
    """The beacon that draws the next checker is not final yet."""
    COMMITTING = 2
    """The checker must compute, and commit to its finding."""
    SHOWING = 3
    """The provider must show its samples for the checker's seed."""
    OPENING = 4
    """The checker must open its finding."""
    CONCEDING = 5
    """Finding and samples differ. The checker may concede."""
    DISPUTED = 6
    """Validators vote about one item."""


@named("ogpu::CheckEnd")
class CheckEnd(IntEnum):
    """The end of a check."""

    OPEN = 0
    PASSED = 1
    SILENT = 2
    """The checker did not commit in time."""
    UNOPENED = 3
    """The checker committed and did not open in time."""
    CONCEDED = 4
    REFUTED = 5
    """Voters found the checker's statement false."""
    UPHELD = 6
    """Voters found the provider's statement false."""


@named("ogpu::ClaimOutcome")
class ClaimOutcome(IntEnum):
    """The end of a claim."""

    PASSED = 0
    """The provider is paid."""
    REFUTED = 1
    """The provider has lost its collateral. The customer gets its price back."""
    RETURNED = 2
    """Nobody could be convicted. The customer gets its price back, and the provider its collateral."""


@struct
class ClaimTerms:
    """A market's terms of a claim at its opening."""

    handler: U8
    """The index of the market's pallet."""
    provider: AccountId
    customer: AccountId
    root: Hash
    items: U32
    weight: U64
    """The weight of all items, in millionths of an output token, with their floors (`item_draws`)."""
    item_weight_max: U64
    """The greatest weight that one item can have. Voters compute one item, and are paid for as much."""
    price: Balance
    """The price that the claim earns. The market holds it until the claim is over."""
    collateral: Balance
    """The provider's collateral, which the market holds, and that of each checker."""
    rate_ppm: U32
    """The chance that an item of mean weight is drawn; 0 for a claim that nobody checks."""
    check_ppm: U32
    """The cost of checking an item over its price, in millionths, with the checker's margin."""
    fee_min: Balance
    """The least fee of a check."""
    fees_held: Balance
    """The most that the customer pays for checks. The market holds it until the claim is over."""
    sealed_at: BlockNumber
    run_blocks: BlockNumber
    """The most blocks of a check by the slowest device."""
    excluded: Annotated[tuple[AccountId, ...], Bounded(EXCLUDED_MAX)]
    """Accounts that may neither check nor vote, beside provider and customer."""


@struct
class Check:
    """One check of a claim's points."""

    checker: AccountId
    seed: Hash
    """The seed of the samples of this check."""
    is_second: bool
    held: Balance
    """The checker's present hold for the claim."""
    fee: Balance = 0
    """The fee that it earned."""
    commitment: Hash | None = None
    shown: Samples | None = None
    """The provider's samples."""
    finding: Finding | None = None
    end: CheckEnd = CheckEnd.OPEN


@struct
class ResultClaim:
    """The record of an open claim."""

    terms: ClaimTerms
    window: BlockNumber
    """The blocks of each window for a call, from the final block of the previous step on."""
    stage: ClaimStage
    recorded_at: BlockNumber
    """The block of the last step. Draws use beacons after it."""
    deadline: BlockNumber = 0
    """The last block of the open window; 0 while the previous step is not final."""
    points: Annotated[tuple[U64, ...], Bounded(POINTS_DRAWN_MAX)] = ()
    pending: U8 = 0
    """Checkers of the present draw that still have to pass."""
    failures: U8 = 0
    """Replaced checkers of the present draw."""
    is_second: bool = False
    """True from the draw of a second check on."""
    checks: Annotated[tuple[Check, ...], Bounded(CHECKS_MAX)] = ()
    charged: Balance = 0
    """The spent part of the provider's collateral."""
    fees_paid: Balance = 0
    """The spent part of the customer's money for checks."""
    disputes: U8 = 0
    """The number of disputes so far."""
    paused: ClaimStage = ClaimStage.DRAWING
    """The stage in which an account opened the present dispute."""
    disputer: AccountId | None = None
    """The account that opened the present dispute, if no check did."""
    is_early: bool = False
    """True if it disputed before the claim's first beacon. Only then it earns a finder's reward: a liar that a stranger
    will check could otherwise save half of its collateral by a friend's dispute."""
    bond: Balance = 0
    """The bond of that account."""
    place: U8 = 0
    """The number of the point whose item voters compute if no checker is left."""
