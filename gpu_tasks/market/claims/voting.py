"""The draw of voters, and the decisions of both rounds: pure rules over the beacon, stakes and votes.

Invariants: neither draw nor decision depends on an order of validators or votes. With less than a third of the eligible
stake, a coalition decides no appeal in which three quarters of the others vote, and prevents no decision of it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from gpu_tasks.market.claims.disputes import EQUAL_VOTES, SEATS, DisputeQuestion
from gpu_tasks.market.claims.findings import CANNOT_FETCH, NO_ANSWER, ItemVote, Verdict
from gpu_tasks.market.claims.money import Purse
from runtime.cryptography.draw import lottery

CONVICTING = (3, 5)
"""More than this share of the voted stake decides, if it is at least half of the eligible stake.

At a third of the stake in a coalition, and 3/4 of the others voting, the others hold 1/2 of the stake and 3/5 of the
votes (docs/adr/0027-claims-and-checks.md).
"""


def draw_voters(
    seed: bytes, dispute: bytes, entrants: Sequence[tuple[bytes, int]], may_vote: Callable[[bytes], bool]
) -> list[bytes]:
    """Return the first nine eligible validators of a lottery by stake, or all eligible ones if there are fewer."""
    order = lottery(seed, b"voters" + dispute, entrants, len(entrants))
    return list(islice((entrants[place][0] for place in order if may_vote(entrants[place][0])), SEATS))


def is_well_formed(vote: ItemVote, seeds: int) -> bool:
    """Return True if a vote has an answer and one sample for each of `seeds`, or is exactly `CANNOT_FETCH`."""
    if vote.verdict is Verdict.UNAVAILABLE:
        return vote == CANNOT_FETCH
    return vote.answer != NO_ANSWER and len(vote.samples) == seeds


def decision_of_seats(votes: Iterable[ItemVote | None]) -> ItemVote | None:
    """Return the vote of five of the nine drawn voters, or None."""
    given = [vote for vote in votes if vote is not None]
    return next((vote for vote in given if given.count(vote) >= EQUAL_VOTES), None)


def decision_of_stake(votes: Iterable[tuple[ItemVote | None, int]], question: DisputeQuestion) -> ItemVote | None:
    """Return the decision of all eligible validators, each with its stake, or None.

    If an item is disputed and no vote alone decides, the votes against it count together: a provider that serves only
    some voters does not gain by it. They decide `CANNOT_FETCH`, because they show no right answer.
    """
    totals: dict[ItemVote, int] = {}
    eligible = 0
    for vote, stake in votes:
        eligible += stake
        if vote is not None:
            totals[vote] = totals.get(vote, 0) + stake
    voted = sum(totals.values())

    def decides(stake: int) -> bool:
        share, of = CONVICTING
        return of * stake > share * voted and 2 * stake >= eligible

    alone = next((vote for vote, stake in totals.items() if decides(stake)), None)
    against = sum(stake for vote, stake in totals.items() if vote.verdict is not Verdict.RIGHT)
    if alone is None and question is DisputeQuestion.ITEM and decides(against):
        return CANNOT_FETCH
    return alone


def agrees(vote: ItemVote, decision: ItemVote, question: DisputeQuestion) -> bool:
    """Return True if a vote has part in a decision of its own round."""
    is_against = vote.verdict is not Verdict.RIGHT
    return vote == decision or (decision == CANNOT_FETCH and question is DisputeQuestion.ITEM and is_against)


def is_same_but_seed(vote: ItemVote, other: ItemVote) -> bool:
    """Return True if votes of two rounds are equal in everything but the sample at the round's own seed."""
    return (vote.verdict, vote.answer, vote.samples[:-1]) == (other.verdict, other.answer, other.samples[:-1])


def standard_of_first(first: ItemVote | None, final: ItemVote | None, vote: ItemVote) -> ItemVote | None:
    """Return the vote with which `vote` of the first round must agree, given the decisions of both rounds.

    Without a decision of its round, nobody can check its last sample: that is taken over.
    """
    if final is None or final == CANNOT_FETCH:
        return final
    if first is not None and is_same_but_seed(first, final):
        return first
    return ItemVote(final.verdict, final.answer, (*final.samples[:-1], *vote.samples[-1:]))


def charged(vote: ItemVote | None, standard: ItemVote | None) -> Purse | None:
    """Return the purse of the money table that a voter pays from, by its vote and the vote expected of it, or None.

    A vote `UNAVAILABLE` costs nothing. If the decision is `UNAVAILABLE`, no vote does: nobody can show that this voter
    was not served.
    """
    if vote is None:
        return Purse.UNHEARD
    is_compared = standard is not None and Verdict.UNAVAILABLE not in (vote.verdict, standard.verdict)
    return Purse.OUTVOTED if is_compared and vote != standard else None
