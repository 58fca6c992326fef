"""Whom a poll asks: everybody in a small set, else units of stake drawn without replacement."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate

from consensus.parameters import (
    FULL_POLL_VALIDATORS_MAX,
    Parameters,
    Thresholds,
    full_poll_thresholds,
    sampled_thresholds,
)
from consensus.validators import ValidatorSet

# A uniform integer from 0 up to, not including, the argument: `secrets.randbelow` in a node.
RandBelow = Callable[[int], int]


def is_full_poll(parameters: Parameters, members: ValidatorSet) -> bool:
    """Whether each poll asks every validator."""
    return len(members.members) <= FULL_POLL_VALIDATORS_MAX and not parameters.force_sampling


def compute_thresholds(parameters: Parameters, members: ValidatorSet) -> Thresholds:
    """What the polls of this set are measured by."""
    if is_full_poll(parameters, members):
        return full_poll_thresholds(members.total)
    size = sample_size(parameters, members)
    # Stake of fewer units than a sample is drawn whole.
    return full_poll_thresholds(size) if size == members.total else sampled_thresholds(size)


def terms(parameters: Parameters, members: ValidatorSet) -> tuple[Thresholds, int]:
    """What this set's polls are measured by, and the height up to which they decide."""
    return compute_thresholds(parameters, members), parameters.boundary(members.epoch)


def sample_size(parameters: Parameters, members: ValidatorSet) -> int:
    """Units in a sample; a set with less stake than that has no more units to give."""
    return min(parameters.sample_units, members.total)


def draw(parameters: Parameters, members: ValidatorSet, randbelow: RandBelow) -> Mapping[bytes, int]:
    """Votes by session key for one poll: the stake of each, or how many sampled units it holds.

    Whom a node polls need not be equal between nodes, so its chance is its own.
    """
    if is_full_poll(parameters, members):
        return {member.session: member.weight for member in members.members}
    cumulative = list(accumulate(member.weight for member in members.members))
    units: set[int] = set()
    votes: dict[bytes, int] = {}
    while len(units) < sample_size(parameters, members):
        unit = randbelow(members.total)
        if unit not in units:
            units.add(unit)
            session = members.members[bisect_right(cumulative, unit)].session
            votes[session] = votes.get(session, 0) + 1
    return votes
