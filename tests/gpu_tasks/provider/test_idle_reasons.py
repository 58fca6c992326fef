"""The reasons of an idle device: each alone, their order, and the awaited event of its race."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.provider.chain.demand import Demand, ServiceDemand, WaitingUnit
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.execution.device_times import WhyIdle
from gpu_tasks.provider.idle_reasons import BETWEEN_BLOCKS, IdleScene, RaceWait, race_wait, why_idle
from gpu_tasks.provider.journal.records import RaceEntry, Sent
from simulation.chains.market_chain import OGPU

OWNER, ID, UNIT = b"o" * 32, b"d" * 32, b"u" * 32
HEIGHT, ASK = 100, 5 * OGPU
DEVICE = Device(OWNER, DeviceClass.CPU, b"h" * 32, 40 * OGPU, 1, 1, secured=10 * OGPU, offers=1)
STATUS = DeviceStatus(ID, DEVICE, ((3, Offer(ASK, 1)),))
FITS = WaitingUnit(ASK, 30 * OGPU)
FASTER = (DeviceClass.CONSUMER, DeviceClass.DATACENTER)


def asked(*waiting: WaitingUnit, open_units: int = 9) -> Demand:
    return Demand(services={3: ServiceDemand(open_units, waiting)})


def of_device(**changed: Any) -> DeviceStatus:
    return replace(STATUS, device=replace(DEVICE, **changed))


NOTHING = IdleScene(STATUS, HEIGHT, demand=asked(open_units=0))
ALONE = {
    WhyIdle.AWAY: replace(NOTHING, is_connected=False),
    WhyIdle.HINDERED: replace(NOTHING, race=RaceWait.ITSELF),
    WhyIdle.INPUT: replace(NOTHING, race=RaceWait.INPUT),
    WhyIdle.CHAIN: replace(NOTHING, race=RaceWait.CHAIN),
    WhyIdle.TASK: replace(NOTHING, is_bid_for=True),
    WhyIdle.DRAINING: replace(NOTHING, drains=True),
    WhyIdle.PAUSED: replace(NOTHING, status=of_device(is_paused=True)),
    WhyIdle.BARRED: replace(NOTHING, demand=replace(NOTHING.demand, may_work=False)),
    WhyIdle.UNPROVEN: replace(NOTHING, why_unproven="it has proven 1 of 2"),
    WhyIdle.NO_OFFER: replace(NOTHING, status=replace(STATUS, offers=())),
    WhyIdle.CLASS: replace(NOTHING, demand=asked(replace(FITS, classes=FASTER))),
    WhyIdle.BOND: replace(NOTHING, demand=asked(replace(FITS, collateral=30 * OGPU + 1))),
    WhyIdle.PRICE: replace(NOTHING, demand=asked(replace(FITS, rate=ASK - 1))),
    WhyIdle.BETWEEN: replace(NOTHING, status=of_device(freed_at=(HEIGHT - BETWEEN_BLOCKS,)), demand=asked()),
    WhyIdle.UNMATCHED: replace(NOTHING, demand=asked(FITS)),
    WhyIdle.TAKEN: replace(NOTHING, demand=asked()),
    WhyIdle.NOT_ASKED: NOTHING,
}


def test_no_reason_sends_a_reader_of_status_to_status() -> None:
    for scene in ALONE.values():
        assert "ogpu-provider status" not in why_idle(scene).words
    assert "it missed" in why_idle(replace(ALONE[WhyIdle.PAUSED], why_paused="it missed")).words


def test_every_reason_is_tried() -> None:
    assert set(ALONE) == set(WhyIdle)


@pytest.mark.parametrize(("why", "scene"), ALONE.items())
def test_a_reason_that_holds_alone_is_the_one(why: WhyIdle, scene: IdleScene) -> None:
    note = why_idle(scene)
    assert note.why is why
    assert note.words


@pytest.mark.parametrize(
    ("scene", "why"),
    [
        (IdleScene(None, HEIGHT), WhyIdle.AWAY),
        (replace(ALONE[WhyIdle.PAUSED], drains=True), WhyIdle.DRAINING),
        (replace(ALONE[WhyIdle.PAUSED], race=RaceWait.INPUT), WhyIdle.INPUT),
        (replace(NOTHING, status=of_device(is_dedicated=True, assignment=UNIT)), WhyIdle.TASK),
        # work that it could take counts before work that it could not
        (replace(NOTHING, demand=asked(replace(FITS, rate=1), FITS)), WhyIdle.UNMATCHED),
        (replace(NOTHING, demand=asked(replace(FITS, collateral=99 * OGPU), FITS)), WhyIdle.UNMATCHED),
        (replace(NOTHING, demand=asked(replace(FITS, classes=FASTER), FITS)), WhyIdle.UNMATCHED),
        (replace(NOTHING, demand=asked(replace(FITS, classes=FASTER), replace(FITS, rate=1))), WhyIdle.PRICE),
        (replace(NOTHING, demand=asked(replace(FITS, rate=1), replace(FITS, collateral=99 * OGPU))), WhyIdle.BOND),
        # a unit that was freed a moment ago, and one that was long ago
        (replace(ALONE[WhyIdle.BETWEEN], demand=asked(FITS)), WhyIdle.BETWEEN),
        (replace(ALONE[WhyIdle.BETWEEN], demand=asked(open_units=0)), WhyIdle.NOT_ASKED),
        (replace(ALONE[WhyIdle.BETWEEN], height=HEIGHT + 1), WhyIdle.TAKEN),
        # of a service that it does not offer, or that was closed
        (replace(NOTHING, demand=Demand(services={4: ServiceDemand(5)})), WhyIdle.NOT_ASKED),
    ],
)
def test_which_reason_comes_first(scene: IdleScene, why: WhyIdle) -> None:
    assert why_idle(scene).why is why


def test_the_words_name_what_can_be_changed() -> None:
    assert "service 3 is open" in why_idle(NOTHING).words
    assert "4.9" in why_idle(replace(NOTHING, demand=asked(replace(FITS, rate=49 * OGPU // 10)))).words
    of_others = replace(FITS, rate=48 * OGPU // 10, classes=FASTER)
    cheap = why_idle(replace(NOTHING, demand=asked(of_others, replace(FITS, rate=47 * OGPU // 10)))).words
    assert "4.7" in cheap, "what units of another class pay is nothing to it"
    assert "another class than cpu" in why_idle(ALONE[WhyIdle.CLASS]).words
    bond = why_idle(replace(NOTHING, demand=asked(replace(FITS, collateral=31 * OGPU)))).words
    assert "30 oGPU" in bond
    assert "31 oGPU" in bond
    ahead = replace(ALONE[WhyIdle.BETWEEN], status=of_device(freed_at=(HEIGHT,), queue=3))
    assert "queue" not in why_idle(ahead).words
    assert "queue" in why_idle(ALONE[WhyIdle.BETWEEN]).words


def a_race(number: int = 0, *, device: bytes = ID, state: UnitState = UnitState.RACING, **racer: Any) -> Race:
    terms = UnitTerms(OGPU, 1, b"i" * 32, b"c" * 32, 1, 64)
    mine = Racer(OWNER, device, OGPU, **racer)
    unit = Unit(3, b"c" * 32, terms, 0, 0, 0, 1, 1, state=state, attempt=1, round=Round(drawn_at=5), racers=(mine,))
    return Race(bytes([number]) * 32, unit, 0, 0, 0, 0, 0)


def test_what_a_race_waits_for() -> None:
    race = a_race()
    begun, declined = RaceEntry(ID), RaceEntry(ID, sent=(Sent.DECLINE,))
    done = RaceEntry(ID, result=object())  # type: ignore[arg-type]  # whatever it is
    assert race_wait([], ID, ()) is RaceWait.NO_UNIT
    assert race_wait([(race, None)], ID, ()) is RaceWait.INPUT
    assert race_wait([(race, begun)], ID, ()) is RaceWait.INPUT
    assert race_wait([(race, begun)], ID, {race.key}) is RaceWait.ITSELF
    assert race_wait([(race, done)], ID, {race.key}) is RaceWait.CHAIN
    assert race_wait([(race, declined)], ID, ()) is RaceWait.CHAIN
    assert race_wait([(race, begun)], b"x" * 32, ()) is RaceWait.NO_UNIT
    assert race_wait([(race, done), (a_race(1), begun)], ID, ()) is RaceWait.INPUT, "the next one could be computed"


@pytest.mark.parametrize(
    "race",
    [
        a_race(commitment=b"c" * 32),
        a_race(has_declined=True),
        a_race(state=UnitState.DISPUTED),
        replace(a_race(), unit=replace(a_race().unit, round=Round(drawn_at=5, closed_at=7))),
    ],
)
def test_a_race_that_needs_the_device_no_more_holds_nothing_up(race: Race) -> None:
    assert race_wait([(race, None)], ID, ()) is RaceWait.NO_UNIT
