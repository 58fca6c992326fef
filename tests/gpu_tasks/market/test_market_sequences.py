"""Chains under right and wrong calls of all accounts: no grain is made, lost or stuck, and every process ends.

The steps are those of `make economy`, which balances all books after each. Windows are so short that tasks, units and
cases live their whole lives in a test. In half of the chains most calls are about tasks, and few units take devices.
"""

from functools import partial

import pytest

from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training.training_market import TrainingMarket
from nightly_but import nightly_but
from runtime.frame.call import Call
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
    "Courts.commit_blocks": 4,
    "Courts.open_blocks": 4,
    "Courts.appeal_blocks": 4,
    "InferenceMarket.queue_blocks": 45,
    "InferenceMarket.unit_keep": 5,
}
SEED, STEPS, DRAIN_BLOCKS = 3, 3_000, 700
STANDING = {"InferenceMarket.ServiceDeposit", "InferenceMarket.OfferDeposit"}
"""Holds of the markets that outlive every unit and task."""


def is_idle(bound: Bound) -> bool:
    """Return True if no record of a unit, a task, a case, a claim or a dispute is left."""
    inference, training, courts = bound[InferenceMarket], bound[TrainingMarket], bound[Courts]
    claims, disputes = bound[ResultClaims], bound[Disputes]
    records = (inference.units, inference.duties, training.tasks, training.bids, training.held_bids, training.duties)
    voted = (bound[LeafDisputes].disputes, claims.claims, claims.duties, disputes.disputes, disputes.ballots)
    judged = (training.awards, training.claims, training.task_of_case, courts.cases, courts.seats)
    return not any(list(item.items()) for item in (*records, *judged, *voted))


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
    season.play(STEPS)
    assert season.tally.events["TaskEnded" if is_of_tasks else "UnitSettled"] > 3
    # From here on all are silent, and lose by it.
    season.is_honest = False
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
    held = {str(hold.reason) for (_, hold), _ in bound[Balances].held_cases.items()}
    assert {reason for reason in held if reason.startswith(("InferenceMarket", "TrainingMarket"))} <= STANDING
    assert not any(reason.startswith(("Courts", "Leaf")) for reason in held)
    devices = [device for _, device in bound[Devices].devices.items() if device is not None]
    assert all(device.assignment is None and not device.behind and not device.secured for device in devices)
