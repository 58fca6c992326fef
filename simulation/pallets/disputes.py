"""Disputes: the bonds of voters, their ballots, and the next step of each dispute."""

from typing import Any

from gpu_tasks.market.claims import disputes_pallet as of_disputes
from gpu_tasks.market.claims.disputes import EXCLUDED_MAX, PARTIES_MAX, VOTER_BOND
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.market.claims.hearing import DRAW_WEIGHT, LOOK_WEIGHT, RULING_WEIGHT, STEP_WEIGHT, VOTER_WEIGHT
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from simulation.actors import Actor, World, always
from simulation.books import BROUGHT, Books, Keys, PalletBooks, Rule, both_or_none, places

STEPS = Rule("a dispute, and its next step", both_or_none)
OF_UNITS = Rule("disputes of units, and their units")
BALLOTS = Rule("voters of a dispute, and their ballots")


def _dispute(books: Books, keys: Keys, dispute: Any, sign: int) -> None:
    books[STEPS].claim(keys[0], sign)
    if dispute.terms.handler == InferenceMarket.index:
        books[BROUGHT].count(dispute.terms.work, sign)
        books[OF_UNITS].claim((keys[0], dispute.terms.work), sign)
    if dispute.terms.handler == TrainingMarket.index:
        books[BROUGHT].count(keys[0], sign)
    for voter in dict.fromkeys((*dispute.voters, *dispute.electorate)):
        books[BALLOTS].claim((voter, keys[0]), sign)


def _ballot(books: Books, keys: Keys, ballot: Any, sign: int) -> None:
    books.case(keys[0], Hold(VOTER_BOND, keys[1]), sign * ballot.held)
    books[BALLOTS].count(keys, sign)


WORLDS = (
    PalletBooks(
        Disputes,
        (
            (Disputes.disputes, _dispute),
            (Disputes.ballots, _ballot),
            (Disputes.agenda.places, places(STEPS)),
            (Disputes.final_agenda.places, places(STEPS)),
        ),
    ),
)

_LOOKS_MAX = VALIDATORS_MAX + PARTIES_MAX + EXCLUDED_MAX
HOOKS = (
    (
        of_disputes.STEPS_BUDGET,
        STEP_WEIGHT
        + DRAW_WEIGHT
        + RULING_WEIGHT
        + times(VALIDATORS_MAX, VOTER_WEIGHT)
        + times(_LOOKS_MAX, LOOK_WEIGHT)
        + TAKE_WEIGHT,
    ),
)
"""The budget of the hook, and more than the heaviest last piece: the draw or the end of an appeal."""


def _dispute_id(world: World, _: Actor) -> bytes:
    """Return an open dispute, or zeros."""
    found = sorted(world.bound[Disputes].disputes.keys())
    return world.chance.choice(found) if found else bytes(32)


ARGUMENTS = {"dispute": _dispute_id, "vote": always(CANNOT_FETCH)}
