"""The record of a session: its terms, its legs, and the state of its deposit. Pure rules over it.

A leg is the part of a session that one provider serves. A session has one leg, or two after a hand-over to the spare.
The spare has a leg of its own for the time in which it stands by. Its only claim is its proof.

Invariants:

* The deposit is held as SESSION_MONEY. `paid` of it has left, and `reserved` of it stands behind open claims.
* The periods of a leg come before those of the next leg. Each period becomes at most one claim.
* A leg holds its collateral until it claims nothing more and none of its claims is open. The spare's leg holds one
  while its proof is open.
"""

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, ServiceId
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U16, U32, Bounded, codec, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.stakers import PublicKey

SESSION_MONEY = HoldReason(
    "SessionMoney",
    "The rest of a session's deposit, from which claims and their checks are paid. One for each session.",
)
SESSION_DEPOSIT = HoldReason(
    "SessionDeposit", "The deposit for a session's record. One for each session.", is_deposit=True
)
SESSIONS_MAX = 16_384
"""The most sessions. Each holds a deposit, so to shut others out costs this many times `session_deposit`."""
SESSIONS_PER_CUSTOMER_MAX = 64
TERM_MIN, TERM_MAX = 16, 21_600
"""The shortest and the longest term, in blocks: about a minute, and a day of four-second blocks."""
PLACES_MAX = 64
PLACE_OFFERS_PER_SERVICE_MAX = 512
"""The most devices that offer places for a service. A draw reads all of them in one block."""
LEGS_MAX = 2
SPARE_LEG = LEGS_MAX
"""The number of the spare's leg."""
SPARE_PERIOD = 2**32 - 1
"""The period of the spare's proof. The claims of a session are too few to reach it."""
FORMER_FIRST_BLOCKS = 10
"""Blocks after a hand-over in which the former provider claims first, about 40 seconds. Otherwise a customer and its
spare could take the grains that a voucher has promised to the former provider."""
CLAIMS_OPEN_MAX = 16
"""The most open claims of a leg. A claim is a free call, and costs the blocks work until it ends."""


@named("ogpu::SessionState")
class SessionState(IntEnum):
    """The state of a session."""

    WAITING = 0
    """The beacon that draws a provider is not final yet."""
    OPEN = 1
    CLOSING = 2
    """The session takes no more requests. Its legs may claim for a while, and their claims end."""


@named("ogpu::SessionEnd")
class SessionEnd(IntEnum):
    """The end of a session."""

    NO_PLACE = 0
    """No device with a free place served at this rate. The whole deposit has returned."""
    WITHDRAWN = 1
    """The customer closed the session before its draw. The whole deposit has returned."""
    SETTLED = 2


@struct
class SessionRules:
    """The parameters of a session, frozen at its opening."""

    settle_blocks: BlockNumber
    """Blocks in which a leg may claim after it has left."""
    settlement_fee: U32
    """Part of each payment, in millionths: half burned, half to the treasury."""
    check_rate_ppm: U32
    """The chance that an item of a claim is checked, or 0 in an active set that is too small for checks."""
    check_ppm: U32
    """The cost of checking an item over its price, in millionths, with the checker's margin."""
    check_fee_min: Balance


@struct
class Leg:
    """The part of a session that one provider serves, or in which it stands by as the spare."""

    owner: AccountId
    device: DeviceId
    since: BlockNumber
    first_period: U32
    collateral: Balance
    """The device's collateral for the session, less its charges."""
    engaged: Balance = 0
    """The part of the collateral that stands behind open claims."""
    claims: U8 = 0
    """The number of its open claims."""
    claimed: Balance = 0
    """The amounts of all its claims."""
    left_at: BlockNumber = 0
    """The block in which it left, or 0 while it serves. A provider may claim for `settle_blocks` more."""
    is_over: bool = False
    """True once it claims nothing more."""
    is_refuted: bool = False
    """True once a claim of it was refuted. It gets no pay for its place then."""
    is_released: bool = False
    """True once its place is paid, and its collateral is free."""


@struct
class SessionRecord:
    """The record of a session."""

    customer: AccountId
    signer: AccountId
    """The account whose key signs the vouchers."""
    customer_key: PublicKey
    """The customer's X25519 key for the tunnel."""
    service: ServiceId
    workload: Hash
    model: Hash
    """Workload and model of the service, which may close earlier than the session."""
    rate: Balance
    """Grains per 1,000 output tokens."""
    input_share: U32
    """The count of an input token, in millionths of an output token."""
    pace: U32
    """Output tokens that the slowest device of the service computes in a block."""
    rules: SessionRules
    place_rate: Balance
    """The least pay of the place, in grains a block."""
    exposure: Balance
    """The most unchecked pay that the collateral covers as one item."""
    deposit: Balance
    record_deposit: Balance
    opened_at: BlockNumber
    recorded_at: BlockNumber
    """The block for which the draw uses the beacon of two blocks later."""
    expires_at: BlockNumber
    state: SessionState = SessionState.WAITING
    legs: Annotated[tuple[Leg, ...], Bounded(LEGS_MAX)] = ()
    spare: Leg | None = None
    """The leg of the spare, also after it has left."""
    spare_seed: Hash = bytes(32)
    """The seed of the spare's standard request."""
    period: U32 = 0
    """The period of the newest leg that no claim covers yet."""
    paid: Balance = 0
    """Grains of the deposit that have left: pay, settlement fees, and fees of checks."""
    reserved: Balance = 0
    """Grains of the deposit for open claims: their amounts, and the rest of the fees of their checks."""
    claims_end: BlockNumber = 0
    """The last block in which any leg may claim once its signer is revoked, or 0."""


@struct
class PeriodClaim:
    """An open claim of a session's period."""

    session: Hash
    leg: U8
    period: U32
    amount: Balance
    fees: Balance
    """The unspent grains of the customer for its checks."""
    collateral: Balance
    """The unspent part of the provider's collateral for it."""


@struct
class PlaceOffer:
    """A device's offer to serve sessions of a service, beside its offer to race for units of it."""

    places: U8
    """The number of sessions that the device serves at once, for all services together."""
    since: BlockNumber
    """The block of this number. It does not apply to sessions recorded earlier."""


@struct
class Occupied:
    """The sessions that hold a place of a device, as provider or spare."""

    sessions: U16 = 0
    freed_at: Annotated[tuple[BlockNumber, ...], Bounded(PLACES_MAX)] = ()
    """The blocks in which its newest places became free, newest first."""


@struct
class _SessionBody:
    customer: AccountId
    number: U32


_BODY = codec(_SessionBody)


def session_id_of(genesis: bytes, customer: bytes, number: int) -> bytes:
    """Return the id of a customer's session, counted from 0."""
    return blake2_256(domain(b"session", genesis, _BODY.encode(_SessionBody(customer, number))))


def left_of(session: SessionRecord) -> int:
    """Return the grains of the deposit that no payment and no open claim has taken."""
    return session.deposit - session.paid - session.reserved


def leg_of(session: SessionRecord, owner: bytes) -> int | None:
    """Return the number of the leg of this provider, or None."""
    return next((number for number, leg in enumerate(session.legs) if leg.owner == owner), None)


def spare_of(session: SessionRecord) -> Leg | None:
    """Return the leg of the spare that stands by, or None."""
    return None if session.spare is None or session.spare.left_at else session.spare


def all_legs(session: SessionRecord) -> tuple[tuple[int, Leg], ...]:
    """Return the legs with their numbers, that of the spare last."""
    return (*enumerate(session.legs), *(() if session.spare is None else ((SPARE_LEG, session.spare),)))


def leg_at(session: SessionRecord, number: int) -> Leg:
    """Return the leg of this number."""
    return dict(all_legs(session))[number]


def period_of(session: SessionRecord, leg_number: int) -> int:
    """Return the period that a leg may claim next."""
    is_newest = leg_number == len(session.legs) - 1
    return session.period if is_newest else session.legs[leg_number + 1].first_period - 1


def claims_until(session: SessionRecord, leg: Leg) -> int:
    """Return the last block in which a leg may claim, however late a hook closes the session."""
    until = (leg.left_at or session.expires_at) + session.rules.settle_blocks
    return min(until, session.claims_end) if session.claims_end else until


def waits_for_former(session: SessionRecord, number: int, height: int) -> bool:
    """Return True if the former provider claims first: a leg after a hand-over claims nothing in this block."""
    former = session.legs[0]
    return number > 0 and not former.is_over and height <= former.left_at + FORMER_FIRST_BLOCKS


def may_release(session: SessionRecord, number: int, height: int) -> bool:
    """Return True if a leg claims nothing more from this block on, and none of its claims is open."""
    leg = leg_at(session, number)
    is_over = leg.is_over or height > claims_until(session, leg)
    return _awaits_release(session, number, leg) and is_over


def _awaits_release(session: SessionRecord, number: int, leg: Leg) -> bool:
    """Return True if a leg has left and only the end of its claiming keeps it from its release.

    A spare with pay is released last. Otherwise its pay could take grains that a voucher has promised to a provider.
    """
    has_pay = number == SPARE_LEG and leg.claimed > 0 and not leg.is_refuted
    is_next = not has_pay or all(each.is_released for each in session.legs)
    return is_next and leg.left_at > 0 and not leg.claims and not leg.is_released


def next_step(session: SessionRecord) -> int | None:
    """Return the block of the next step that no call brings, or None if only ends of claims come.

    A step that is due already has a block in the past.
    """
    heights = [] if session.state is SessionState.CLOSING else [session.expires_at]
    if session.state is SessionState.CLOSING and is_released(session):
        heights = [0]
    for number, leg in all_legs(session):
        if _awaits_release(session, number, leg):
            heights.append(0 if leg.is_over else claims_until(session, leg) + 1)
    return min(heights, default=None)


def is_released(session: SessionRecord) -> bool:
    """Return True once every leg is released."""
    return all(leg.is_released for _, leg in all_legs(session))


def with_leg(session: SessionRecord, number: int, leg: Leg) -> SessionRecord:
    """Return the session with another record of one leg."""
    if number == SPARE_LEG:
        return replace(session, spare=leg)
    return replace(session, legs=(*session.legs[:number], leg, *session.legs[number + 1 :]))


def left(leg: Leg, height: int) -> Leg:
    """Return a leg that has left in a block, unless it left before."""
    return leg if leg.left_at else replace(leg, left_at=height)


def over(leg: Leg, height: int) -> Leg:
    """Return a leg that claims nothing more. It has left in a block, unless it left before."""
    return replace(left(leg, height), is_over=True)


def _without_spare(session: SessionRecord, height: int) -> SessionRecord:
    """Return a session whose spare leaves in a block, unless it left before. Without a proof it has nothing to get."""
    spare = spare_of(session)
    if spare is None:
        return session
    return replace(session, spare=replace(over(spare, height), is_released=not spare.claimed))


def closed(session: SessionRecord, height: int) -> SessionRecord:
    """Return an open session that closes in a block: the newest leg and the spare leave."""
    newest = len(session.legs) - 1
    session = _without_spare(with_leg(session, newest, left(session.legs[newest], height)), height)
    return replace(session, state=SessionState.CLOSING)


def handed_over(session: SessionRecord, leg: Leg, height: int) -> SessionRecord:
    """Return a session of one leg after its hand-over to a new leg, which begins with the next period.

    The former provider may claim its present period, unless it claims nothing more. The period is its own also then:
    without one, a leg that left before its first claim would have no period to name.
    """
    former, period = session.legs[0], session.period + 1
    session = _without_spare(session, height)
    return replace(session, legs=(left(former, height), replace(leg, first_period=period)), period=period)


def claimed(session: SessionRecord, claim: PeriodClaim, height: int, *, is_last: bool) -> SessionRecord:
    """Return a session whose leg claims its present period. A former leg claims nothing after that."""
    leg = session.legs[claim.leg]
    is_newest = claim.leg == len(session.legs) - 1
    leg = replace(
        leg, claims=leg.claims + 1, claimed=leg.claimed + claim.amount, engaged=leg.engaged + claim.collateral
    )
    if is_last or not is_newest:
        leg = over(leg, min(height, session.expires_at))
    return replace(
        with_leg(session, claim.leg, leg),
        period=session.period + is_newest,
        reserved=session.reserved + claim.amount + claim.fees,
    )
