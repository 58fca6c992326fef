"""Sessions of a random chain: places, sessions, vouchers, claims and proofs of spares.

Invariant: a false claim is false in all items, as a function of the claim, and only a liar makes one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.records import (
    PLACES_MAX,
    SPARE_PERIOD,
    TERM_MIN,
    SessionRecord,
    period_of,
    spare_of,
)
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from simulation.actors import BY_STASH, OGPU, Actor, Deed, World, portion

SERVICE = 0
"""The service of the preset, which all providers offer."""
PROOFS = 0.3
"""The chance per block that a spare sends its proof."""
LEAVES = 0.01
"""The chance per block that a provider leaves a session."""


@dataclass(frozen=True)
class SessionHabits:
    """The chances per block of the parties of sessions."""

    customers: int
    """This many customers think of a session."""
    opens: float
    """One of them opens it, if fewer than `open_max` are open."""
    open_max: int
    offers: float
    """A device offers places, if one has no offer."""
    places: int
    """The places that it offers."""
    claims: float
    """A provider claims a period."""
    last: float
    """A claim is the last one of its leg."""
    ends: float
    """A session is closed or handed over."""


FEW = SessionHabits(customers=1, opens=0.2, open_max=12, offers=0.1, places=3, claims=0.1, last=0.01, ends=0.01)
MANY = SessionHabits(
    customers=2, opens=0.5, open_max=50, offers=0.8, places=PLACES_MAX, claims=0.1, last=0.5, ends=0.07
)
"""Short sessions, one after another."""
LIES = 0.3
"""The share of false claims among those of a liar."""
BY_SIGNER = {actor.provider.account: actor for actor in BY_STASH.values()}


def session_deeds(world: World) -> Iterator[Deed]:
    """Yield the steps of devices, customers and providers."""
    chance, room = world.chance, world.bound[Sessions]
    habits = MANY if world.has_many_sessions else FEW
    for _ in range(habits.customers):
        if chance.random() < habits.opens and room.session_count.get() < habits.open_max:
            yield from _opening(world, chance.choice(sorted(BY_STASH.items()))[1])
    if chance.random() < habits.offers:
        yield from _places(world, habits.places)
    for session_id, session in list(room.sessions.items()):
        if session is not None:
            yield from _session(world, session_id, session, habits)


def is_claim_false(claim_id: bytes, claim: ResultClaim, liars: tuple[str, ...]) -> bool:
    """Return whether all items of a session's claim are false."""
    actor = BY_STASH.get(claim.terms.provider)
    return actor is not None and actor.name in liars and portion(claim_id, b"session lies") < LIES


def _opening(world: World, actor: Actor) -> Iterator[Deed]:
    service = world.bound[InferenceMarket].services[SERVICE]
    if service is None:
        return
    yield Deed(
        actor.stash,
        Sessions.open(
            service=SERVICE,
            deposit=world.chance.choice((OGPU // 10, OGPU, 5 * OGPU)),
            term=world.chance.choice((TERM_MIN, 60, 200)),
            rate=world.chance.choice((service.terms.price_min, service.terms.price_max)),
            signer=actor.provider.account,
            customer_key=actor.vrf,
        ),
    )


def _places(world: World, places: int) -> Iterator[Deed]:
    """Yield the place offer of a device that has none."""
    room, market = world.bound[Sessions], world.bound[InferenceMarket]
    for device, _ in list(market.offers.under(SERVICE)):
        record = market.devices.devices[device]
        actor = None if record is None else BY_STASH.get(record.owner)
        if actor is not None and room.place_offers[SERVICE, device] is None:
            yield Deed(actor.provider, Sessions.offer_places(device=device, service=SERVICE, places=places))
            return


def _session(world: World, session_id: bytes, session: SessionRecord, habits: SessionHabits) -> Iterator[Deed]:
    chance, customer = world.chance, BY_SIGNER.get(session.signer)
    if customer is None:
        return
    spare = spare_of(session)
    standing = None if spare is None or spare.is_over else BY_STASH.get(spare.owner)
    if standing is not None and chance.random() < PROOFS:
        top = session_claim_id(session_id, SPARE_PERIOD)
        yield Deed(standing.provider, Sessions.prove_spare(session=session_id, top=top))
    for number, leg in enumerate(session.legs):
        actor = BY_STASH.get(leg.owner)
        if actor is not None and not leg.is_over and chance.random() < habits.claims:
            tokens = chance.choice((1, 64, 640))
            requests = chance.choice((1, 1, 3))
            period = period_of(session, number)
            top = session_claim_id(session_id, period)
            voucher = Voucher(session_id, period, Totals(requests, tokens // 2, tokens, top))
            signature = customer.provider.sign(voucher_payload(world.genesis_hash, voucher))
            signed = MultiSignature(customer.provider.scheme, signature)
            is_last = leg.left_at > 0 or chance.random() < habits.last
            call = Sessions.claim(session=session_id, voucher=voucher, signature=signed, is_last=is_last)
            yield Deed(actor.provider, call)
        if actor is not None and not leg.is_over and chance.random() < LEAVES:
            yield Deed(actor.provider, Sessions.leave(session=session_id))
    if chance.random() < habits.ends:
        call = chance.choice((Sessions.close, Sessions.hand_over))(session=session_id)
        yield Deed(customer.provider, call)
