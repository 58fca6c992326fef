"""Attacks on the market that once worked: each test checks the defence."""

from collections.abc import Callable
from typing import Any

import pytest

from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import Unit, UnitState
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.dispute_chain import VoteOf, vote_steps
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
)
from unit_cases import RIGHT, WRONG, checker_steps, post_unit, racers_of, vote_for

SYBIL, SECOND = Keys("sybil"), Keys("second sybil")
PATIENCE = 40
"""Blocks after which a unit is drawn, or never will be."""


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


def to_the_end(chain: MarketChain, unit_id: bytes, vote: Callable[[Keys], VoteOf], blocks: int = 400) -> None:
    """Let voters vote, and checkers find wrong results, until the unit has ended."""
    for _ in range(blocks):
        unit = chain.unit(unit_id)
        if unit.state in (UnitState.SETTLED, UnitState.REFUNDED):
            return
        ballots = [key for key, _ in chain.now()[Disputes].ballots.items()]
        steps: list[Step] = [
            step
            for voter, dispute_id in ballots
            for step in vote_steps(chain, chain.keys_of(voter), dispute_id, vote(chain.keys_of(voter)))
        ]
        verdict = Verdict.RIGHT if unit.output_root == RIGHT else Verdict.WRONG
        chain.block(*steps, *checker_steps(chain, verdict))
    raise TimeoutError("a unit without end")


# Racers cannot vote, so only a coalition is left.
@pytest.mark.parametrize(("size", "bad", "racers"), [(7, 2, 5), (10, 3, 7)])
def test_honest_racers_leave_more_voters_than_a_coalition(size: int, bad: int, racers: int) -> None:
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
        to_the_end(chain, unit_id, lambda keys: vote_for(Verdict.RIGHT, WRONG if keys in coalition else RIGHT))
    assert owned_by(chain, team) <= before
    assert owned_by(chain, honest) >= others


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
