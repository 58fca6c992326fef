"""The validators that a poll asks: all of a small set, else units of stake drawn without replacement."""

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

# Returns a uniform integer below the argument: `secrets.randbelow` in a node.
RandBelow = Callable[[int], int]


def is_full_poll(parameters: Parameters, validators: ValidatorSet) -> bool:
    """Return True if each poll asks every validator."""
    return len(validators.members) <= FULL_POLL_VALIDATORS_MAX and not parameters.force_sampling


def compute_thresholds(parameters: Parameters, validators: ValidatorSet) -> Thresholds:
    """Return the thresholds of this set's polls."""
    if is_full_poll(parameters, validators):
        return full_poll_thresholds(validators.total)
    sample_units = sample_size(parameters, validators)
    # A set with no more units than a sample is drawn whole, so chance plays no part.
    return full_poll_thresholds(sample_units) if sample_units == validators.total else sampled_thresholds(sample_units)


def terms(parameters: Parameters, validators: ValidatorSet) -> tuple[Thresholds, int]:
    """Return the thresholds of this set's polls, and the greatest height that they decide."""
    return compute_thresholds(parameters, validators), parameters.boundary(validators.epoch)


def sample_size(parameters: Parameters, validators: ValidatorSet) -> int:
    """Return the number of units in a sample: `sample_units`, or the whole stake if that is less."""
    return min(parameters.sample_units, validators.total)


def draw(parameters: Parameters, validators: ValidatorSet, randbelow: RandBelow) -> Mapping[bytes, int]:
    """Return the votes by session key for one poll: the stake of each validator, or its number of sampled units.

    Nodes need not sample the same validators, so each uses randomness of its own.
    """
    if is_full_poll(parameters, validators):
        return {member.session: member.weight for member in validators.members}
    cumulative = list(accumulate(member.weight for member in validators.members))
    drawn_units: set[int] = set()
    sampled_votes: dict[bytes, int] = {}
    while len(drawn_units) < sample_size(parameters, validators):
        drawn_unit = randbelow(validators.total)
        if drawn_unit not in drawn_units:
            drawn_units.add(drawn_unit)
            session = validators.members[bisect_right(cumulative, drawn_unit)].session
            sampled_votes[session] = sampled_votes.get(session, 0) + 1
    return sampled_votes
