"""The events and errors of the pallet ResultClaims."""

from typing import Annotated

from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.findings import POINTS_DRAWN_MAX, Finding, Samples
from runtime.encoding.codec import U8, U32, U64, Bounded
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event


@event
class ClaimOpened:
    """A result waits for its draw. `handler` is the index of the market's pallet."""

    claim: Hash
    handler: U8
    provider: AccountId


@event
class PointsDrawn:
    """The beacons drew points of a claim. A checker computes their items."""

    claim: Hash
    points: Annotated[tuple[U64, ...], Bounded(POINTS_DRAWN_MAX)]


@event
class CheckerDrawn:
    """A checker was drawn. It holds `held` until the end of the claim, and takes its samples at `seed`."""

    claim: Hash
    check: U8
    checker: AccountId
    seed: Hash
    held: Balance


@event
class FindingCommitted:
    """A checker committed to its finding. The provider must show its samples."""

    claim: Hash
    check: U8


@event
class SamplesShown:
    """The provider showed its samples. The checker must open its finding."""

    claim: Hash
    check: U8
    samples: Samples


@event
class FindingOpened:
    """A checker opened its finding."""

    claim: Hash
    check: U8
    finding: Finding


@event
class CheckEnded:
    """A check ended."""

    claim: Hash
    check: U8
    end: CheckEnd


@event
class ItemDisputed:
    """Validators will vote about the item at `point`, or about item `index` if an account disputed it."""

    claim: Hash
    dispute: Hash
    index: U32
    point: U64 | None


@event
class ClaimEnded:
    """A claim ended, and its money moved."""

    claim: Hash
    outcome: ClaimOutcome


class UnknownClaim(DispatchError):
    """There is no such claim, or it is over."""


class NotChecker(DispatchError):
    """The signer is not the present checker of this claim."""


class NotClaimProvider(DispatchError):
    """The signer is not the provider of this claim."""


class ClaimWindowClosed(DispatchError):
    """The window for this call is not open."""


class WrongSamples(DispatchError):
    """The samples do not fit the drawn points."""


class WrongFinding(DispatchError):
    """The finding and the salt do not open the checker's commitment."""


class MalformedFinding(DispatchError):
    """The finding names no drawn point, or its samples do not fit its verdict."""


class NotDisputable(DispatchError):
    """The claim has an open dispute or too many earlier ones, or it has no such item."""
