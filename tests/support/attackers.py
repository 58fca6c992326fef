"""Strangers who race for their own gain on a `MarketChain`: they join, name a service of their own, and are counted."""

from collections.abc import Callable

from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    MarketChain,
    Step,
    attach,
    attestation,
    commit,
    joins,
    per_thousand,
    signed,
    terms,
    tolerant,
)

PATIENCE = 40
"""Blocks in which a unit is drawn, or never will be."""
Opinions = Callable[[Keys], Answered | None]


def join(chain: MarketChain, keys: Keys, *, service: int, ask: int = 1) -> None:
    """A block in which a stranger becomes a provider with one device, and offers it."""
    chain.block(*joins(keys, service=service, ask=ask, bond=10 * OGPU))


def create_service(chain: MarketChain, *, price_min: int = 1, price_max: int = 100 * OGPU) -> None:
    """A block in which the customer names service 1, whose prices are its own."""
    service = ServiceTerms(b"own", WORKLOAD, MODEL, per_thousand(price_min), per_thousand(price_max), 0, 30, 256)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=service)))


def owned_by(chain: MarketChain, team: list[Keys]) -> int:
    """What they own together."""
    return chain.owned(*(keys.stash for keys in team))


def post_unit(chain: MarketChain, customer: Keys = CUSTOMER, *, service: int, price: int, racers: int) -> bytes | None:
    """A block with a post of one unit, whose input was sealed to all; None: it was refused."""
    number = chain.now()[InferenceMarket].posted[customer.stash]
    wanted = terms(price=price, racers=racers, sealed_at=chain.height - chain.final_lag)
    chain.block(tolerant(signed(customer.stash, InferenceMarket.post(service=service, units=(wanted,)))))
    unit_id = unit_id_of(GENESIS_HASH, customer.stash, number)
    return None if chain.now()[InferenceMarket].units[unit_id] is None else unit_id


def posted(chain: MarketChain, *, service: int, price: int, racers: int) -> bytes | None:
    """A unit that races, once it does; None: it was refused, or drawn by nobody."""
    unit_id = post_unit(chain, service=service, price=price, racers=racers)
    if unit_id is None:
        return None
    for _ in range(PATIENCE):
        if chain.unit(unit_id).state is not UnitState.QUEUED:
            break
        chain.block()
    return unit_id if chain.unit(unit_id).state is UnitState.RACING else None


def drawn(unit_id: bytes | None) -> bytes:
    """The unit, where it must race."""
    if unit_id is None:
        raise LookupError("no race")
    return unit_id


def answered(chain: MarketChain, unit_id: bytes, roots: dict[Keys, bytes]) -> Unit:
    """These racers commit, and attach what they committed; the unit as it was while they raced."""
    unit = chain.unit(unit_id)
    chain.block(*(commit(keys, unit_id, unit, root) for keys, root in roots.items()))
    for _ in range(PATIENCE):
        current = chain.unit(unit_id).round
        if current is not None and current.reveals_from:
            break
        chain.block()
    chain.block(attach(*(attestation(keys, unit_id, unit, root) for keys, root in roots.items())))
    return unit


def judged_to_the_end(
    chain: MarketChain, unit_id: bytes, opinions: Opinions, *, appellant: Keys | None = None, blocks: int = 250
) -> None:
    """Judges say what `opinions` says of each; who appeals does so as soon as it can; until the unit has ended."""
    for _ in range(blocks):
        if chain.unit(unit_id).state in (UnitState.SETTLED, UnitState.REFUNDED):
            return
        case = chain.now()[Courts].cases[unit_id]
        steps: list[Step] = []
        if case is not None:
            steps += chain.judge_steps(lambda case_id, keys: opinions(keys) if case_id == unit_id else None)
            if appellant and case.stage is CaseStage.APPEALABLE and case.appeal is None:
                steps.append(tolerant(signed(appellant.stash, Courts.appeal(case_id=unit_id))))
        chain.block(*steps)
    raise TimeoutError("a unit without end")
