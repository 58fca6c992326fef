"""Hooks and inherents share their part of a block: excess work waits, or makes the block invalid."""

import random

import pytest

from gpu_tasks.market.attestations import attestations as module
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import order_key
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.block_room import BlockRoom
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.training.tasks import TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Unsigned, Weight
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_lock import TrustLock
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    PALLETS,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    root_of,
    signed,
    terms,
)
from task_chain import an_order

ROOT = root_of(b"R" * 32)
UNITS = 2


class Greedy(Pallet, index=99):
    """A hook before the market's that uses a whole block, for the first few heights."""

    lock: TrustLock

    def on_initialize(self) -> Weight:
        """Use the whole block until block 12."""
        if self.lock.system.number.get() < 12:
            self.context.mandatory_left = 0
        return Weight()


def closed(chain: MarketChain) -> list[SignedAttestation]:
    """Return attestations for the next block: two of each unit, the second of which settles it."""
    chain.blocks(2)
    units = chain.post(*(terms(racers=2) for _ in range(UNITS)))
    while any(chain.unit(unit).state is UnitState.QUEUED for unit in units):
        chain.block()
    racers = {unit: [chain.keys_of(racer.owner) for racer in chain.unit(unit).racers] for unit in units}
    chain.block(*(commit(keys, unit, chain.unit(unit), ROOT) for unit in units for keys in racers[unit]))
    chain.blocks(2)
    found = [attestation(keys, unit, chain.unit(unit), ROOT) for unit in units for keys in racers[unit]]
    return sorted(found, key=order_key)


def weight_of(bound: Bound, signed: list[SignedAttestation]) -> Weight:
    with bound.overlay.transaction():
        weight = bound.dispatch(Attestations.attach(attestations=tuple(signed)), Unsigned()).actual_weight
    assert weight is not None
    return weight


def test_the_last_of_a_race_weighs_what_settling_it_takes() -> None:
    chain = MarketChain(named_keys(5))
    signed = closed(chain)
    weights: list[int] = []

    def step(bound: Bound) -> None:
        weights.extend(weight_of(bound, [each]).ref_time for each in signed)

    chain.block(step)
    assert weights[0] == weights[2] < weights[1] == weights[3]


def test_attestations_beyond_their_share_of_a_block_make_it_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = MarketChain(named_keys(5))
    signed = closed(chain)
    needed = weight_of(chain.runtime.at(chain.state), signed)
    monkeypatch.setattr(module, "ATTESTATIONS_MAX", Weight(needed.ref_time - 1))
    with pytest.raises(InvalidBlock, match="room in"):
        chain.block(attach(*signed))
    chain.height -= 1
    monkeypatch.setattr(module, "ATTESTATIONS_MAX", needed)
    chain.block(attach(*signed))
    assert all(chain.unit(each.statement.unit).state is UnitState.CLAIMED for each in signed)


def test_attestations_keep_to_what_hooks_have_left() -> None:
    chain = MarketChain(named_keys(5))
    signed = closed(chain)

    def short_of_room(bound: Bound) -> None:
        bound.mandatory_left = weight_of(chain.runtime.at(chain.state), signed).ref_time - 1
        attach(*signed)(bound)

    with pytest.raises(InvalidBlock, match="room in"):
        chain.block(short_of_room)


def test_claims_and_tasks_take_no_more_than_what_is_left_beside_what_is_kept_for_units() -> None:
    wanted = (Weight(30), Weight(20), Weight(10))
    for left, given in ((100, (30, 20, 10)), (45, (30, 15, 0)), (0, (0, 0, 0)), (-7, (0, 0, 0))):
        room = BlockRoom(left)
        budgets = [room.budget(kind) for kind in wanted]
        for budget, limit in zip(budgets, given, strict=True):
            assert budget.is_spent == (limit == 0)
            budget.spend(Weight(limit - 1))
            assert not budget.is_spent or limit <= 0
            budget.spend(Weight(1))
            assert budget.is_spent


def test_tasks_wait_where_other_hooks_have_taken_the_block() -> None:
    pallets = (*PALLETS[:7], Greedy, *PALLETS[7:])
    numbers = {"TrainingMarket.commit_blocks": 4}
    chain = MarketChain(named_keys(4), [], numbers, pallets=pallets)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order())))
    task_id = task_id_of(GENESIS_HASH, CUSTOMER.stash, 0)
    ended = []
    while chain.height < 16:
        chain.block()
        task = chain.now()[TrainingMarket].tasks[task_id]
        assert task is not None
        if task.state is TaskState.ENDED:
            ended.append(chain.height)
    assert ended[0] == 12, "its deadline was over long before"


def test_draws_wait_where_other_hooks_have_taken_the_block() -> None:
    pallets = (*PALLETS[:7], Greedy, *PALLETS[7:])
    chain = MarketChain(named_keys(5), pallets=pallets, chance=random.Random(3))
    chain.blocks(2)
    (unit,) = chain.post(terms())
    drawn = []
    while chain.height < 16:
        chain.block()
        if chain.unit(unit).state is not UnitState.QUEUED:
            drawn.append(chain.height)
    assert drawn[0] == 12
    assert chain.now()[InferenceMarket].units[unit] is not None
