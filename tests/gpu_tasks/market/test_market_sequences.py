"""Chains under right and wrong calls of all accounts: no grain is made, lost or stuck, and every process ends.

The steps are those of `make economy`, which balances all books after each. Windows are so short that tasks, units and
cases live their whole lives in a test. In half of the chains most calls are about tasks, and few units take devices.
"""

from functools import partial

import pytest

from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import units
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, Unit
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.training.tasks import is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from nightly_but import nightly_but
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.actors import Actor, World
from simulation.economy import season as season_module
from simulation.economy.season import Season
from simulation.replay.calls import draw
from simulation.replay.roll_deeds import with_numbers
from task_chain import SMALL

SHORT = {
    **{name: number for name, number in SMALL.items() if name.startswith("TrainingMarket")},
    "TrainingMarket.task_keep": 1,
    "InferenceMarket.queue_blocks": 45,
    "InferenceMarket.unit_keep": 5,
}
SEED, STEPS, STEPS_MAX, DRAIN_BLOCKS = 3, 3_000, 9_000, 700
STANDING = {"InferenceMarket.ServiceDeposit", "InferenceMarket.OfferDeposit", "TrainingMarket.TaskDeposit"}
"""Holds of the markets that outlive every unit and open task."""


def is_idle(bound: Bound) -> bool:
    """Return True if no record of a unit, an open task, a claim or a dispute is left.

    Root may have set a long time for which records of ended tasks and units are kept.
    """
    inference, training = bound[InferenceMarket], bound[TrainingMarket]
    if any(task is not None and is_open(task) for _, task in training.tasks.items()):
        return False
    if not all(unit is not None and is_kept_long(unit) for _, unit in inference.units.items()):
        return False
    claims, disputes = bound[ResultClaims], bound[Disputes]
    records = (inference.duties, training.held_bids, training.duties)
    voted = (claims.claims, claims.duties, disputes.disputes, disputes.ballots)
    claimed = (training.task_of_claim, training.task_of_dispute)
    return not any(list(item.items()) for item in (*records, *claimed, *voted))


def is_kept_long(unit: Unit) -> bool:
    """Return True if a unit has ended, and Root had set a long time before it was posted."""
    return not units.is_open(unit) and unit.rules.keep_blocks > SHORT["InferenceMarket.unit_keep"]


def mostly_of_tasks(world: World, who: Actor) -> Call:
    """Return a random call. Three of four are about tasks."""
    if world.chance.random() < 0.25:
        return draw(world, who)
    return next(call for call in iter(partial(draw, world, who), None) if call.name.startswith("TrainingMarket."))


@pytest.mark.parametrize(
    ("number", "is_of_tasks"), nightly_but(6, [(number, bool(number % 2)) for number in range(16)])
)
def test_whatever_anybody_calls_every_grain_and_device_is_free_in_the_end(
    monkeypatch: pytest.MonkeyPatch, number: int, *, is_of_tasks: bool
) -> None:
    monkeypatch.setattr(season_module, "with_numbers", lambda spec, more: with_numbers(spec, {**more, **SHORT}))
    season = Season(SEED, number // 2)
    if is_of_tasks:
        monkeypatch.setattr(season_module, "draw", mostly_of_tasks)
        season.eagerness, season.waiting_max = 12, 3
    happened, kind = season.tally.events, "TaskEnded" if is_of_tasks else "UnitSettled"
    # Blocks of many calls make a short chain, in which few claims end.
    for steps in range(STEPS, STEPS_MAX, STEPS // 10):
        season.play(steps)
        if happened[kind] > 3:
            break
    assert happened[kind] > 3
    # From here on all are silent, and lose by it.
    season.is_calm = False
    monkeypatch.setattr(season, "_duties", lambda *_: None)
    monkeypatch.setattr(season, "_random", lambda *_: None)
    bound = season.runtime.at(season.state)
    for _ in range(DRAIN_BLOCKS):
        if is_idle(bound):
            break
        season.block()
        bound = season.runtime.at(season.state)
    assert is_idle(bound), "without another call everything ends within its bound"
    season.count_anew()
    kept = {Hold(UNIT_DEPOSIT, unit_id) for unit_id, _ in bound[InferenceMarket].units.items()}
    held = {str(hold.reason) for (_, hold), _ in bound[Balances].held_cases.items() if hold not in kept}
    markets = ("InferenceMarket", "TrainingMarket", "ResultClaims", "Disputes")
    assert {reason for reason in held if reason.startswith(markets)} <= STANDING
    devices = [device for _, device in bound[Devices].devices.items() if device is not None]
    assert all(device.assignment is None and not device.behind for device in devices)
    # The terms of sessions are longer than this test. Only their open legs still bind a device.
    legs = [leg for _, session in bound[Sessions].sessions.items() if session for leg in session.legs]
    seated = sum(leg.collateral for leg in legs if not leg.is_released)
    assert sum(device.secured for device in devices) == seated
