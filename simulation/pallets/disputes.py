"""Disputes: the bonds of voters, their ballots, and the next step of each dispute."""

from typing import Any

from gpu_tasks.market.claims import disputes_pallet as of_disputes
from gpu_tasks.market.claims.disputes import EXCLUDED_MAX, PARTIES_MAX, VOTER_BOND
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.hearing import LOOK_WEIGHT, RULING_WEIGHT, STEP_WEIGHT, VOTER_WEIGHT
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from simulation.books import Books, Keys, PalletBooks, Rule, both_or_none, places

STEPS = Rule("a dispute, and its next step", both_or_none)
BALLOTS = Rule("voters of a dispute, and their ballots")


def _dispute(books: Books, keys: Keys, dispute: Any, sign: int) -> None:
    books[STEPS].claim(keys[0], sign)
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
# Not in `HOOKS` while the chain lists Courts and not this pallet: with the last pieces of both, a block would not
# suffice.
HOOK = (
    of_disputes.STEPS_BUDGET,
    STEP_WEIGHT + RULING_WEIGHT + times(VALIDATORS_MAX, VOTER_WEIGHT) + times(_LOOKS_MAX, LOOK_WEIGHT) + TAKE_WEIGHT,
)
"""The budget of the hook, and more than the heaviest last piece: the draw or the end of an appeal."""
