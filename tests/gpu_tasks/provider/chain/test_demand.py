"""The units that a provider can be drawn for, by the market's records as a client reads them."""

import asyncio
from dataclasses import replace

import pytest

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain import demand as demands
from gpu_tasks.provider.chain.demand import SLEEPERS_SEEN, Demand, ServiceDemand, demand
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import OGPU, MarketChain, named_keys, per_thousand, signed, terms
from state_node import KeptBlocks

ASK = per_thousand(2 * OGPU)


class Scene:
    """A chain of four providers with one device each, which ask for more than a unit offers at first."""

    def __init__(self) -> None:
        self.chain = MarketChain(named_keys(4))
        self.kept = KeptBlocks(self.chain)
        asks = [InferenceMarket.offer(service=0, device=one.device, ask=ASK) for one in self.chain.validators]
        self.chain.block(*(signed(one.stash, ask) for one, ask in zip(self.chain.validators, asks, strict=True)))

    def demand(self, *services: int) -> Demand:
        stash = self.chain.validators[0].stash
        return asyncio.run(demand(self.kept.client, stash, services or (0,)))


def test_nothing_is_asked_for() -> None:
    assert Scene().demand(0, 7) == Demand(services={0: ServiceDemand(0)}), "there is no service 7"


def test_units_that_sleep_ask_for_so_much_now() -> None:
    """The next draw uses the unit's offered price, which rises with its age."""
    scene = Scene()
    (unit,) = scene.chain.post(terms(OGPU, sealed_at=scene.chain.height - 1))
    rates = []
    found = scene.demand().services[0]
    for _ in range(2):
        scene.chain.blocks(8)
        found = scene.demand().services[0]
        record, service = scene.chain.unit(unit), scene.chain.now()[InferenceMarket].services[0]
        assert record.asleep_since
        assert service is not None
        (waiting,) = found.waiting
        age, work = scene.chain.height - record.posted_at, money.work_allowed(record)
        floor = -(-service.terms.price_min * work // 10**9)
        price = money.ramped_price(floor, record.terms.price_max, age, service.terms.ramp)
        assert waiting.collateral == money.collateral(record.rules, price, racer_count=2, requests=1)
        assert waiting.rate == price * 10**9 // work < ASK
        rates.append(waiting.rate)
    assert rates[0] < rates[1]
    assert found.open_units == 1


@pytest.mark.parametrize(("named", "classes"), [(None, tuple(DeviceClass)), (DeviceClass.CONSUMER, (1,))])
def test_units_that_sleep_say_of_which_class_their_racers_are(
    named: DeviceClass | None, classes: tuple[int, ...]
) -> None:
    scene = Scene()
    scene.chain.post(replace(terms(OGPU, sealed_at=scene.chain.height - 1), device_class=named))
    scene.chain.blocks(5)
    (waiting,) = scene.demand().services[0].waiting
    assert waiting.classes == classes


def test_of_many_that_sleep_the_oldest_few_are_looked_at() -> None:
    scene = Scene()
    for _ in range(SLEEPERS_SEEN + 2):
        scene.chain.post(terms(OGPU, sealed_at=scene.chain.height - 1))
        scene.chain.block()
    scene.chain.blocks(8)
    found = scene.demand().services[0]
    assert (found.open_units, len(found.waiting)) == (SLEEPERS_SEEN + 2, SLEEPERS_SEEN)
    assert demands.demand_of(scene.chain.now(), scene.chain.validators[0].stash, (0,)).services[0] == found


def test_who_is_no_candidate_is_drawn_for_nothing() -> None:
    scene = Scene()
    stash = scene.chain.validators[0].stash
    assert scene.demand().may_work
    scene.chain.block(signed(stash, TrustStake.chill()))
    assert not scene.demand().may_work
