"""Any sequence of calls of the economic pallets, by anybody, in any order: no grain is made, lost or stuck.

`MarketChain.block` compares all books after every block; here hypothesis chooses what happens.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import QUEUE_MAX, DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import UnitState, racer_of
from runtime.frame.errors import InvalidBlock
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    CUSTOMER,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    judge_commit,
    judge_open,
    signed,
    terms,
    tolerant,
    validates,
)

NAMES = ("alice", "bob", "charlie", "dave", "eve")
VALIDATORS, OUTSIDERS = [Keys(name) for name in NAMES[:4]], [Keys(name) for name in NAMES[4:]]
ACTORS = [*VALIDATORS, *OUTSIDERS, CUSTOMER]
ROOTS = (b"R" * 32, b"W" * 32)

Action = Callable[[MarketChain, Keys, int], Any]


def nth_unit(chain: MarketChain, number: int) -> bytes:
    """One of the units that there are, or an unknown one."""
    units = [unit_id for unit_id, _ in chain.now()[InferenceMarket].units.items()]
    return units[number % len(units)] if units else bytes(32)


def device_of(chain: MarketChain, number: int) -> bytes:
    return ACTORS[number % len(ACTORS)].device


def race(chain: MarketChain, who: Keys, number: int) -> Callable[[Bound], None] | None:
    """Commit or attach in a race, right or wrong."""
    unit_id = nth_unit(chain, number)
    unit = chain.now()[InferenceMarket].units[unit_id]
    racer = racer_of(unit, who.stash) if unit else None
    if unit is None or racer is None:
        return None
    root = ROOTS[number % 2] if racer.commitment is None else ROOTS[0]
    return attach(attestation(who, unit_id, unit, root)) if racer.commitment else commit(who, unit_id, unit, root)


def judge(chain: MarketChain, who: Keys, number: int) -> Callable[[Bound], None] | None:
    """Commit to or open an opinion, or appeal."""
    unit_id, courts = nth_unit(chain, number), chain.now()[Courts]
    case, seat = courts.cases[unit_id], courts.seats[who.stash, unit_id]
    if case is not None and case.verdict is not None:
        return signed(who.stash, Courts.appeal(case_id=unit_id))
    if seat is None:
        return None
    opinion = (Answered(ROOTS[0]), Answered(ROOTS[1]), Unanswerable())[len(who.name) % 3]
    if seat.commitment:
        return judge_open(who, unit_id, opinion)
    return judge_commit(who, unit_id, BenchKind(seat.bench), opinion)


SERVICE = ServiceTerms(b"x", bytes(32), bytes(32), 1, OGPU, 5, 5, 9)
ACTIONS: tuple[Action, ...] = (
    race,
    race,
    race,
    judge,
    judge,
    lambda chain, _, n: InferenceMarket.post(
        service=n % 3, units=(terms(OGPU // 50 + n * OGPU // 20, 1 + n % 3, max(0, chain.height - n)),) * (n % 3)
    ),
    lambda chain, _, n: InferenceMarket.post(
        service=0, units=(replace(terms(OGPU, 1 + n % 2, max(0, chain.height - 2)), device_class=DeviceClass(n % 3)),)
    ),
    lambda chain, _, n: InferenceMarket.cancel(unit=nth_unit(chain, n)),
    lambda chain, _, n: InferenceMarket.decline(unit=nth_unit(chain, n), attempt=1 + n % 2),
    lambda _, who, n: InferenceMarket.offer(device=who.device, service=n % 3, ask=n * OGPU // 50),
    lambda _, who, n: InferenceMarket.withdraw_offer(device=who.device, service=n % 3),
    lambda _chain, _who, _n: InferenceMarket.create_service(terms=SERVICE),
    lambda _chain, _who, n: InferenceMarket.close_service(service=n % 3),
    lambda _chain, who, n: Devices.register_device(
        kind=DeviceClass(n % 3), uuid_hash=who.uuid_hash, bond=50 * n * OGPU
    ),
    lambda chain, _, n: Devices.unregister_device(device=device_of(chain, n)),
    lambda chain, _, n: Devices.bond_device_extra(device=device_of(chain, n), value=n),
    lambda chain, _, n: Devices.pause(device=device_of(chain, n)),
    lambda chain, _, n: Devices.resume(device=device_of(chain, n)),
    lambda chain, _, n: Devices.set_queue(device=device_of(chain, n), queue=(0, 1, 2, QUEUE_MAX, QUEUE_MAX + 1)[n % 5]),
    lambda _chain, who, n: Devices.register_provider(seal_key=who.public("seal"), endpoint=b"http://x" * (n % 2)),
    lambda _chain, _who, n: TrustStake.bond(value=n * 5 * OGPU),
    lambda _chain, _who, n: TrustStake.unbond(value=n * OGPU),
    lambda _chain, who, _n: validates(who),
    lambda _chain, _who, _n: TrustStake.chill(),
    lambda _chain, _who, n: TrustStake.delegate(validator=ACTORS[n % len(ACTORS)].stash, value=n * OGPU),
    lambda _chain, _who, n: TrustStake.undelegate(validator=ACTORS[n % len(ACTORS)].stash, value=n * OGPU),
)


def attempted(what: Any, who: Keys) -> Callable[[Bound], None]:
    """A call by the stash or a ready step; it may fail, and then must leave nothing."""
    return tolerant(what if callable(what) else signed(who.stash, what), InvalidBlock)


moments = st.tuples(
    st.sampled_from(ACTORS),
    st.integers(0, len(ACTIONS) - 1),
    st.integers(0, 12),
    st.sampled_from([0, 0, 0, 1, 2, 5, 13]),
)


@settings(max_examples=settings().max_examples // 4)  # each is a whole chain
@given(st.lists(moments, min_size=5, max_size=40), st.integers(1, 3), st.sampled_from([0, 2, QUEUE_MAX]))
def test_any_sequence_keeps_the_books(sequence: list[tuple[Keys, int, int, int]], final_lag: int, queue: int) -> None:
    chain = MarketChain(VALIDATORS, OUTSIDERS, final_lag=final_lag, queue=queue)
    chain.blocks(4)
    chain.post(terms(), terms(OGPU // 2, 3), *(terms(OGPU // 9, 2) for _ in range(queue)))
    chain.blocks(2 + final_lag)
    for who, action, number, pause in sequence:
        what = ACTIONS[action](chain, who, number)
        chain.block(*([attempted(what, who)] if what is not None else []))
        if pause:
            chain.blocks(pause)
        check_classes(chain)


def check_classes(chain: MarketChain) -> None:
    """Whoever races is of a class that may."""
    bound = chain.now()
    market, devices = bound[InferenceMarket], bound[Devices].devices
    for unit_id, unit in market.units.items():
        if unit is not None and unit.state is UnitState.RACING:
            kinds = {device.kind for racer in unit.racers if (device := devices[racer.device]) is not None}
            assert kinds <= set(market.state.catalogue.classes_of(unit)), unit_id
