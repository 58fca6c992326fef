"""Sessions: the deposits of customers, the collateral of legs, places, open claims, and the next steps."""

from typing import Any

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference.checkers_left import LOOK_WEIGHT as READER_WEIGHT
from gpu_tasks.market.inference.slots import LOOK_WEIGHT, ORDER_WEIGHT
from gpu_tasks.market.sessions.places import SCAN_WEIGHT
from gpu_tasks.market.sessions.records import (
    PLACE_OFFERS_PER_SERVICE_MAX,
    PLACES_MAX,
    SESSION_DEPOSIT,
    SESSION_MONEY,
    SPARE_LEG,
    SPARE_PERIOD,
    TERM_MIN,
    PeriodClaim,
    SessionRecord,
    SessionState,
    all_legs,
)
from gpu_tasks.market.sessions.sessions import DRAW_BUDGET, DRAW_WEIGHT, STEP_BUDGET, STEP_WEIGHT, Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from simulation.actors import OGPU, Actor, World, one_of
from simulation.books import BROUGHT, EVERYBODY, Books, Keys, PalletBooks, Rule, both_or_none, claims, counts, places
from simulation.pallets.devices import OFFERED, SECURED

OPEN = Rule("sessions, and their number")
OF_CUSTOMER = Rule("sessions of a customer, and those listed")
SEATED = Rule("places that sessions occupy, and those listed by device")
OCCUPIED = Rule("occupied places of a device, and its sessions")
PLACE_OFFERS = Rule("place offers of a service, and their number")
RESERVED = Rule("reserved grains of a session, and those of its claims")
ENGAGED = Rule("engaged collateral of a leg, and that of its claims")
CLAIMS = Rule("open claims of a leg, and claims")
STEPS = Rule("a session, and its next step or an open claim", both_or_none)
DRAWN = Rule("sessions that wait for a draw, and their draws")


def _session(books: Books, keys: Keys, session: SessionRecord, sign: int) -> None:
    session_id = keys[0]
    books.case(session.customer, Hold(SESSION_MONEY, session_id), sign * (session.deposit - session.paid))
    books.case(session.customer, Hold(SESSION_DEPOSIT, session_id), sign * session.record_deposit)
    books[OPEN].count(EVERYBODY, sign)
    books[OF_CUSTOMER].claim((session.customer, session_id), sign)
    books[RESERVED].claim(session_id, sign * session.reserved)
    books[STEPS].claim(session_id, sign)
    if session.state is SessionState.WAITING:
        books[DRAWN].claim(session_id, sign)
    assert session.paid + session.reserved <= session.deposit
    for number, leg in all_legs(session):
        books[ENGAGED].claim((session_id, number), sign * leg.engaged)
        books[CLAIMS].claim((session_id, number), sign * leg.claims)
        assert leg.engaged <= leg.collateral
        is_spare = number == SPARE_LEG
        if not leg.is_released:
            case = session_claim_id(session_id, SPARE_PERIOD) if is_spare else session_id
            books.case(leg.owner, Hold(COLLATERAL, case), sign * leg.collateral)
            books[SECURED].count(leg.device, sign * leg.collateral)
        if not (leg.left_at if is_spare else leg.is_released):
            books[SEATED].claim((leg.device, session_id), sign)


def _period_claim(books: Books, keys: Keys, claim: PeriodClaim, sign: int) -> None:
    books[BROUGHT].claim(keys[0], sign)
    books[RESERVED].count(claim.session, sign * (claim.amount + claim.fees))
    books[ENGAGED].count((claim.session, claim.leg), sign * claim.collateral)
    books[CLAIMS].count((claim.session, claim.leg), sign)
    books[STEPS].count(claim.session, sign)


WORLDS = (
    PalletBooks(
        Sessions,
        (
            (Sessions.sessions, _session),
            (Sessions.session_count, claims(OPEN)),
            (Sessions.customer_sessions, counts(OF_CUSTOMER, lambda keys: keys)),
            (Sessions.device_sessions, counts(SEATED, lambda keys: keys)),
            (Sessions.device_sessions, counts(OCCUPIED, lambda keys: keys[0])),
            (Sessions.occupied, lambda books, keys, taken, sign: books[OCCUPIED].claim(keys[0], sign * taken.sessions)),
            (Sessions.place_offers, counts(OFFERED, lambda keys: keys[1])),
            (Sessions.place_offers, counts(PLACE_OFFERS, lambda keys: keys[0])),
            (Sessions.place_offer_count, claims(PLACE_OFFERS)),
            (Sessions.period_claims, _period_claim),
            (Sessions.due.places, places(STEPS)),
            (Sessions.draws.places, places(DRAWN)),
        ),
    ),
)

HOOKS = (
    (STEP_BUDGET, STEP_WEIGHT + TAKE_WEIGHT),
    (
        DRAW_BUDGET,
        DRAW_WEIGHT
        + TAKE_WEIGHT
        + times(VALIDATORS_MAX, READER_WEIGHT)
        + times(PLACE_OFFERS_PER_SERVICE_MAX, SCAN_WEIGHT + ORDER_WEIGHT + times(2, LOOK_WEIGHT)),
    ),
)


def _rate(world: World, _: Actor) -> int:
    return world.chance.choice((1, OGPU // 100, 10 * OGPU, 10**16))


def _session_id(world: World, _: Actor) -> bytes:
    """Return a session, or an unknown one."""
    known = list(world.bound[Sessions].sessions.keys())
    return world.chance.choice(known) if known and world.chance.random() < 0.9 else world.chance.randbytes(32)


def _voucher(world: World, who: Actor) -> Voucher:
    """Return a voucher that nobody has signed."""
    totals = Totals(world.chance.choice((0, 1, 4_097)), 0, world.chance.choice((0, 64, 2**63)), bytes(32))
    return Voucher(_session_id(world, who), world.chance.choice((0, 0, 1)), totals)


def _forged(world: World, _: Actor) -> Any:
    return MultiSignature(world.chance.choice(tuple(Scheme)), world.chance.randbytes(64))


ARGUMENTS: dict[str, Any] = {
    "session": _session_id,
    "deposit": lambda world, _: world.amount(),
    "term": one_of(0, TERM_MIN, 40, 120, 21_601),
    "rate": _rate,
    "signer": lambda _, who: who.provider.account,
    "customer_key": one_of(bytes(32), b"k" * 32, b"k" * 32, b"k" * 32),
    "voucher": _voucher,
    "signature": _forged,
    "top": lambda world, _: world.chance.randbytes(32),
    "is_last": one_of(False, False, True),
    "places": one_of(0, 1, 2, 2, PLACES_MAX, PLACES_MAX + 1),
}
