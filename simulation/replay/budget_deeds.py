"""Budgets of a random chain: owners create, grant, revoke and close; delegates spend with their provider keys.

The sessions that delegates open have right vouchers and claims, as those of customers (`session_deeds.py`).
"""

from collections.abc import Iterator

from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import DAY_BLOCKS, Budget, Caps
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.records import TERM_MIN
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.frame.call import Call
from simulation.actors import BY_STASH, OGPU, Actor, Deed, World
from simulation.catalogue import arguments
from simulation.replay.session_deeds import BY_SIGNER, SERVICE

CREATES, GRANTS, SPENDS, REVOKES, ENDS = 0.05, 0.05, 0.05, 0.005, 0.02
"""Chances per block: that an owner creates a budget, and for each budget or delegate the further steps."""
BUDGETS_MAX, DELEGATES_MAX = 6, 3
_UNITS = arguments()["units"]


def budget_deeds(world: World) -> Iterator[Deed]:
    """Yield the steps of owners and delegates."""
    chance, room = world.chance, world.bound[Budgets]
    records = list(room.budgets.items())
    if chance.random() < CREATES and len(records) < BUDGETS_MAX:
        yield Deed(_anybody(world).stash, Budgets.create(deposit=chance.choice((OGPU, 50 * OGPU))))
    for budget_id, budget in records:
        owner = None if budget is None else BY_STASH.get(budget.owner)
        if budget is not None and owner is not None:
            yield from _owned(world, budget_id, budget, owner)
            for key, _ in list(room.delegates.under(budget_id)):
                yield from _delegated(world, budget_id, owner, key)


def _owned(world: World, budget_id: bytes, budget: Budget, owner: Actor) -> Iterator[Deed]:
    chance = world.chance
    if chance.random() < GRANTS and budget.delegates < DELEGATES_MAX:
        caps = Caps(5 * OGPU, 50 * OGPU, chance.choice((5 * OGPU, 500 * OGPU)), (), world.height + DAY_BLOCKS)
        key = _anybody(world).provider.account
        yield Deed(owner.stash, Budgets.grant(budget=budget_id, delegate=key, caps=caps))
    if chance.random() < ENDS:
        call = Budgets.withdraw(budget=budget_id, amount=OGPU) if budget.delegates else Budgets.close(budget=budget_id)
        yield Deed(owner.stash, call)


def _delegated(world: World, budget_id: bytes, owner: Actor, key: bytes) -> Iterator[Deed]:
    chance, actor = world.chance, BY_SIGNER.get(key)
    if actor is not None and chance.random() < SPENDS:
        yield Deed(actor.provider, Budgets.spend(budget=budget_id, call=_bought(world, actor)))
    if chance.random() < REVOKES:
        by = owner.stash if actor is None or chance.random() < 0.7 else actor.provider
        yield Deed(by, Budgets.revoke(budget=budget_id, delegate=key))


def _bought(world: World, actor: Actor) -> Call:
    market, chance = world.bound[InferenceMarket], world.chance
    service = market.services[SERVICE]
    if service is None or chance.random() < 0.3:
        return InferenceMarket.post(service=SERVICE, units=_UNITS(world, actor))
    return Sessions.open(
        service=SERVICE,
        deposit=chance.choice((OGPU // 10, OGPU)),
        term=chance.choice((TERM_MIN, 200)),
        rate=service.terms.price_max,
        signer=actor.provider.account,
        customer_key=actor.vrf,
    )


def _anybody(world: World) -> Actor:
    return world.chance.choice(sorted(BY_STASH.items()))[1]
