"""Committees: how large, what their verdicts decide, and when another one is drawn.

The first committee has up to three members. If it does not decide, larger ones of fresh members
follow, as Snowflake would ask them: four of five must agree, twice in a row on the same verdict;
a failed one doubles the size; at last a court of up to 63, more than two thirds of those who
spoke. Always: verdicts count only after all commits are closed; a committee never holds a racer,
the customer, or a member of an earlier committee of the unit; the number of committees is bounded.
"""

from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.inference.commitments import InputBad, Recomputed, Verdict
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import U8, Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash

FIRST_SIZE = 3
LATER_SIZE = 5
LATER_COMMITTEES_MAX = 4
COURT_SIZE = 63
MEMBERS_MAX = COURT_SIZE
SERVED_MAX = 160
"""More than all committees of one unit can hold, and than the active set has members."""

_Verdict = Recomputed | InputBad


@struct
class Judge:
    """One judge and what it has done so far."""

    account: AccountId
    commitment: Hash | None = None
    verdict: Verdict | None = None


@struct
class Committee:
    """The committee that judges a unit now."""

    number: U8
    """0 for the first, counted up with each that is drawn."""
    recorded_at: BlockNumber
    """The draw uses the beacon of two blocks after this one."""
    size: U8
    round: Round | None = None
    members: Annotated[tuple[Judge, ...], Bounded(MEMBERS_MAX)] = ()
    served: Annotated[tuple[AccountId, ...], Bounded(SERVED_MAX)] = ()
    """Members of the earlier committees of this unit, in ascending order."""
    leading: Verdict | None = None
    """What the last successful later committee said."""


def first_committee(height: int) -> Committee:
    """The committee of a unit that came into dispute in block `height`, not drawn yet."""
    return Committee(number=0, recorded_at=height, size=FIRST_SIZE)


def is_court(committee: Committee) -> bool:
    """Whether this is the last instance."""
    return committee.number > LATER_COMMITTEES_MAX


def tally(committee: Committee) -> tuple[_Verdict | None, int]:
    """The most frequent verdict and how many gave it; a tie has none."""
    given = [judge.verdict for judge in committee.members if judge.verdict is not None]
    counted = sorted(((given.count(verdict), place) for place, verdict in enumerate(given)), reverse=True)
    if not counted:
        return None, 0
    votes, place = counted[0]
    best = given[place]
    is_tie = any(count == votes and given[other] != best for count, other in counted)
    return (None, votes) if is_tie else (best, votes)


def decision(committee: Committee) -> _Verdict | None:
    """What the committee alone decides; None if it does not."""
    best, votes = tally(committee)
    if best is None or votes < _votes_needed(committee):
        return None
    if committee.number == 0 or is_court(committee):
        return best
    return best if committee.leading == best else None


def _votes_needed(committee: Committee) -> int:
    size = len(committee.members)
    if committee.number == 0:
        return 2  # of three, or of two; one member alone decides nothing
    if is_court(committee):
        spoken = sum(judge.verdict is not None for judge in committee.members)
        return max(2, 2 * spoken // 3 + 1)
    return max(2, -(-4 * size // 5))  # four of five, rounded up; one member alone decides nothing here either


def next_committee(committee: Committee, height: int) -> Committee | None:
    """The committee after one that did not decide; None if the unit has had its last."""
    if is_court(committee):
        return None
    best, votes = tally(committee)
    is_success = committee.number > 0 and best is not None and votes >= _votes_needed(committee)
    if committee.number == 0 or is_success:
        size = LATER_SIZE if committee.number == 0 else committee.size
    else:
        size = min(2 * committee.size, MEMBERS_MAX)  # so few agreed that more have to be asked
    number = committee.number + 1
    accounts = (*committee.served, *(judge.account for judge in committee.members))
    return Committee(
        number=number,
        recorded_at=height,
        size=COURT_SIZE if number > LATER_COMMITTEES_MAX else size,
        served=tuple(sorted(accounts)),
        leading=best if is_success else None,
    )


def majority(committee: Committee, verdict: _Verdict) -> tuple[bytes, ...]:
    """The members who gave the verdict that was decided."""
    return tuple(judge.account for judge in committee.members if judge.verdict == verdict)


def member_of(committee: Committee, account: bytes) -> Judge | None:
    """The account's seat in the committee."""
    return next((judge for judge in committee.members if judge.account == account), None)


def with_member(committee: Committee, changed: Judge) -> Committee:
    """The committee with one seat changed."""
    members = tuple(changed if judge.account == changed.account else judge for judge in committee.members)
    return replace(committee, members=members)


def is_all_committed(committee: Committee) -> bool:
    """Whether nobody is left to commit."""
    return all(judge.commitment for judge in committee.members)


def is_all_revealed(committee: Committee) -> bool:
    """Whether every commitment is opened."""
    return all(judge.verdict is not None for judge in committee.members if judge.commitment is not None)
