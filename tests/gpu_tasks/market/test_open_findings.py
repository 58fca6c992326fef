"""Attacks on the market that once worked: each test checks the defence."""

from collections.abc import Callable
from typing import Any

import pytest

from genesis.chain import genesis_state, runtime_of
from genesis.preset_names import PRESETS
from genesis.presets import load_spec
from gpu_tasks.market.courts.cases import AUDIT_POT, CaseStage, ClaimKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import Unit, UnitState
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import RESERVE
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Memory
from simulation.chains.court_chain import CourtChain, Toys
from simulation.chains.market_chain import (
    CUSTOMER,
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
    named_keys,
    per_thousand,
    signed,
    terms,
    tolerant,
)
from unit_cases import RIGHT, WRONG, post_unit, racers_of

SYBIL, SECOND = Keys("sybil"), Keys("second sybil")
DEAR = 40 * OGPU
"""A price whose seat costs 800 oGPU."""
PATIENCE = 40
"""Blocks after which a unit is drawn, or never will be."""
Opinions = Callable[[Keys], Answered | None]


def join(chain: MarketChain, keys: Keys, *, service: int, ask: int = 1) -> None:
    """Make a block in which a stranger becomes a provider with one device, and offers it."""
    chain.block(*joins(keys, service=service, ask=ask, bond=10 * OGPU))


def create_service(chain: MarketChain, *, price_min: int = 1, price_max: int = 100 * OGPU) -> None:
    """Make a block in which the customer creates service 1 with its own prices."""
    service = ServiceTerms(b"own", WORKLOAD, MODEL, per_thousand(price_min), per_thousand(price_max), 0, 30, 256)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=service)))


def owned_by(chain: MarketChain, team: list[Keys]) -> int:
    """Return the joint money of a team."""
    return chain.owned(*(keys.stash for keys in team))


def posted(chain: MarketChain, *, service: int, price: int, racers: int) -> bytes | None:
    """Return a racing unit, or None if it was refused or not drawn."""
    unit_id = post_unit(chain, service=service, price=price, racers=racers)
    if unit_id is None:
        return None
    for _ in range(PATIENCE):
        if chain.unit(unit_id).state is not UnitState.QUEUED:
            break
        chain.block()
    return unit_id if chain.unit(unit_id).state is UnitState.RACING else None


def drawn(unit_id: bytes | None) -> bytes:
    """Return the unit, which must race."""
    if unit_id is None:
        raise LookupError("no race")
    return unit_id


def answered(chain: MarketChain, unit_id: bytes, roots: dict[Keys, bytes]) -> Unit:
    """Let these racers commit and attach their results. Return the unit as it was during the race."""
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
    """Let judges hold their `opinions`, and appellants appeal as soon as possible, until the unit has ended."""
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


# Racers cannot judge, so only a coalition is left.
@pytest.mark.parametrize(("size", "bad", "racers"), [(7, 2, 5), (10, 3, 7)])
def test_honest_racers_leave_more_judges_than_a_coalition(size: int, bad: int, racers: int) -> None:
    chain = MarketChain(named_keys(size), [SYBIL])
    coalition, honest = chain.validators[:bad], chain.validators[bad:]
    idle = [*coalition, *honest[racers - 1 :]]
    chain.block(*(signed(keys.stash, InferenceMarket.withdraw_offer(device=keys.device, service=0)) for keys in idle))
    join(chain, SYBIL, service=0)
    chain.blocks(3)
    team = [*coalition, SYBIL, CUSTOMER]
    before, others = owned_by(chain, team), owned_by(chain, honest)
    unit_id = posted(chain, service=0, price=OGPU, racers=racers)
    if unit_id is not None:
        answered(chain, unit_id, {keys: WRONG if keys == SYBIL else RIGHT for keys in racers_of(chain, unit_id)})
        judged_to_the_end(
            chain, unit_id, lambda keys: Answered(WRONG if keys in coalition else RIGHT), appellant=honest[0]
        )
    assert owned_by(chain, team) <= before
    assert owned_by(chain, honest) >= others


def poor(chain: MarketChain, keys: list[Keys]) -> None:
    """Spend the money of a seat at the dear price."""
    spend = Balances.transfer_allow_death(dest=RESERVE, value=2_300 * OGPU)
    chain.block(*(signed(each.stash, spend) for each in keys))


# A price that few could cover chose the bench.
@pytest.mark.parametrize("rich", [2, 0], ids=["two-judge-alone", "nobody-can-sit"])
def test_no_price_chooses_its_judges(rich: int) -> None:
    chain = MarketChain(named_keys(10), [SYBIL])
    coalition, honest = chain.validators[:2], chain.validators[2:]
    victim = honest[0]
    poor(chain, chain.validators[rich:])
    create_service(chain, price_min=DEAR, price_max=DEAR)
    join(chain, SYBIL, service=1, ask=per_thousand(DEAR))
    chain.block(signed(victim.provider, InferenceMarket.offer(device=victim.device, service=1, ask=per_thousand(DEAR))))
    chain.blocks(3)
    had = owned_by(chain, [victim])
    unit_id = posted(chain, service=1, price=DEAR, racers=2)
    if unit_id is not None:
        answered(chain, unit_id, {SYBIL: WRONG, victim: RIGHT})
        judged_to_the_end(
            chain, unit_id, lambda keys: Answered(WRONG if keys in coalition else RIGHT), appellant=victim
        )
    assert unit_id is None or owned_by(chain, [victim]) > had, "a right answer that was raced is paid"


def blocks_of_a_dispute(dust: int) -> int:
    """Return the blocks of an honest dispute after `dust` disputes about almost nothing."""
    courts = CourtChain(check=lambda _bound, _issued: None)
    claims = [(keys.stash, ClaimKind.ANSWERED, root) for keys, root in zip(courts.racers, (RIGHT, WRONG), strict=True)]

    def bring_dust(bound: Bound) -> None:
        toys = bound[Toys]
        for number in range(dust):
            toys.bring(blake2_256(b"dust" + bytes([number])), toys.terms(CUSTOMER.stash, 1, claims))

    courts.chain.block(bring_dust)
    case_id, begun = courts.dispute(), courts.chain.height
    while courts.case(case_id) is not None:
        courts.chain.block(*(tolerant(step) for step in courts.steps()))
    return courts.chain.height - begun


# Cases about dust kept the others in line.
def test_dust_keeps_no_dispute_waiting() -> None:
    assert 2 * blocks_of_a_dispute(dust=150) <= 3 * blocks_of_a_dispute(dust=0)


# Seats are held for nothing.
def test_a_unit_that_nobody_can_judge_costs_its_customer_the_bond() -> None:
    chain = MarketChain(named_keys(7), [SYBIL, SECOND])
    create_service(chain)
    join(chain, SYBIL, service=1)
    join(chain, SECOND, service=1)
    chain.blocks(3)
    team = [SYBIL, SECOND, CUSTOMER]
    before = owned_by(chain, team)
    unit_id = drawn(posted(chain, service=1, price=DEAR, racers=2))
    unit = answered(chain, unit_id, {SYBIL: RIGHT})
    judged_to_the_end(chain, unit_id, lambda _: None)
    assert before - owned_by(chain, team) >= unit.bond


def drain_of(price: int, appellant: Keys | None) -> int:
    """Return the pot's loss by a customer's own unit with two own racers, one of them late."""
    chain = MarketChain(named_keys(10), [SYBIL, SECOND])
    chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, 100 * OGPU))
    create_service(chain)
    join(chain, SYBIL, service=1)
    join(chain, SECOND, service=1)
    chain.blocks(3)
    before = chain.now()[Balances].free_balance(AUDIT_POT)
    unit_id = drawn(posted(chain, service=1, price=price, racers=2))
    answered(chain, unit_id, {SYBIL: RIGHT})
    judged_to_the_end(chain, unit_id, lambda _: Answered(RIGHT), appellant=appellant)
    return before - chain.now()[Balances].free_balance(AUDIT_POT)


# One's own late racer had the pot pay the judges.
@pytest.mark.parametrize("appellant", [None, CUSTOMER], ids=["silent", "appeals"])
@pytest.mark.parametrize("price", [1, OGPU])
def test_a_late_racer_of_ones_own_takes_nothing_from_the_pot(price: int, appellant: Keys | None) -> None:
    assert drain_of(price, appellant) <= 0


# Premiums below the existential deposit never open an empty pot.
@pytest.mark.parametrize("name", PRESETS)
def test_the_pot_is_open_from_block_0(name: str) -> None:
    spec = load_spec(name)
    balances = runtime_of(spec).at(Memory(genesis_state(spec)))[Balances]
    assert balances.free_balance(AUDIT_POT) >= balances.existential_deposit


# A device that is freed after the beacon was known was drawn by it.
def test_a_freed_device_enters_no_draw_whose_beacon_is_known() -> None:
    chain = MarketChain(named_keys(1), final_lag=3)
    (racer,) = chain.validators
    chain.blocks(5)
    busy = drawn(posted(chain, service=0, price=OGPU, racers=1))
    (waiting,) = chain.post(terms(racers=1, sealed_at=chain.height - chain.final_lag))
    recorded = chain.unit(waiting).recorded_at
    while chain.now()[Beacon].value_at(recorded + 2) is None:
        chain.block()
    freed_at = chain.height + 1
    chain.block(commit(racer, busy, chain.unit(busy), RIGHT))
    chain.blocks(3)
    unit = chain.unit(waiting)
    assert unit.state is not UnitState.RACING or unit.recorded_at >= freed_at


def bond_min(value: int) -> Callable[[Bound], Any]:
    return lambda bound: bound.parameters.change(TrustStake.validator_bond_min, value)


# A bond that was lowered again woke no unit.
def test_a_lower_bond_wakes_who_slept_for_a_higher() -> None:
    chain = MarketChain(named_keys(3))
    chain.blocks(3)
    chain.block(bond_min(TrustStake.validator_bond_min.greatest))
    (asleep,) = chain.post(terms(racers=2, sealed_at=2))
    chain.blocks(30)
    if chain.unit(asleep).state is not UnitState.QUEUED:
        raise LookupError("a unit that does not sleep")
    chain.block(bond_min(10 * OGPU))
    chain.blocks(PATIENCE)
    drawn(posted(chain, service=0, price=OGPU, racers=1))
    assert chain.unit(asleep).attempt, "it was drawn, whatever became of its race since"
