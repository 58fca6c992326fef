"""Sessions of a random chain: devices offer places, customers open sessions and sign vouchers, providers claim, spares
prove.

Invariant: a false claim is false in all items, as a function of the claim, and only a liar makes one.
"""

from collections.abc import Iterator

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.records import SPARE_PERIOD, TERM_MIN, SessionRecord, period_of, spare_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from simulation.actors import BY_STASH, OGPU, Actor, Deed, World, portion

SERVICE = 0
"""The service of the preset, which all providers offer."""
OPENS, OFFERS, CLAIMS, ENDS = 0.2, 0.1, 0.1, 0.01
"""Chances per block: that a customer opens a session, that a device offers places, that a provider claims a period,
and that a session is closed or handed over."""
OPEN_MAX = 12
PLACES = 3
PROOFS = 0.3
"""The chance per block that a spare sends its proof."""
LIES = 0.3
"""The share of false claims among those of a liar."""
BY_SIGNER = {actor.provider.account: actor for actor in BY_STASH.values()}


def session_deeds(world: World) -> Iterator[Deed]:
    """Yield the steps of devices, customers and providers."""
    chance, room = world.chance, world.bound[Sessions]
    if chance.random() < OPENS and room.session_count.get() < OPEN_MAX:
        yield from _opening(world, chance.choice(sorted(BY_STASH.items()))[1])
    if chance.random() < OFFERS:
        yield from _places(world)
    for session_id, session in list(room.sessions.items()):
        if session is not None:
            yield from _session(world, session_id, session)


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


def _places(world: World) -> Iterator[Deed]:
    """Yield the place offer of a device that has none."""
    room, market = world.bound[Sessions], world.bound[InferenceMarket]
    for device, _ in list(market.offers.under(SERVICE)):
        record = market.devices.devices[device]
        actor = None if record is None else BY_STASH.get(record.owner)
        if actor is not None and room.place_offers[SERVICE, device] is None:
            yield Deed(actor.provider, Sessions.offer_places(device=device, service=SERVICE, places=PLACES))
            return


def _session(world: World, session_id: bytes, session: SessionRecord) -> Iterator[Deed]:
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
        if actor is not None and not leg.is_over and chance.random() < CLAIMS:
            tokens = chance.choice((1, 64, 640))
            requests = chance.choice((1, 1, 3))
            period = period_of(session, number)
            top = session_claim_id(session_id, period)
            voucher = Voucher(session_id, period, Totals(requests, tokens // 2, tokens, top))
            signature = customer.provider.sign(voucher_payload(world.genesis_hash, voucher))
            signed = MultiSignature(customer.provider.scheme, signature)
            is_last = leg.left_at > 0 or chance.random() < ENDS
            call = Sessions.claim(session=session_id, voucher=voucher, signature=signed, is_last=is_last)
            yield Deed(actor.provider, call)
        if actor is not None and not leg.is_over and chance.random() < ENDS:
            yield Deed(actor.provider, Sessions.leave(session=session_id))
    if chance.random() < ENDS:
        call = chance.choice((Sessions.close, Sessions.hand_over))(session=session_id)
        yield Deed(customer.provider, call)
