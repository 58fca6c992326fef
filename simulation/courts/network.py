"""The network of the cases: validators with a coalition among them. Provider and customer are outside of them.

Invariant: a network is made once and never changes. Each case is played on a copy.
"""

from copy import copy
from functools import cache

from simulation.chains.court_chain import CourtChain
from simulation.chains.market_chain import OGPU, Keys

STAKE_EACH = 1_000 * OGPU
SEATED_FROM = 3
"""Blocks until every key is old enough to be sealed to."""


def members_of(size: int, share_percent: int) -> int:
    """Return the number of the coalition's validators, which have the lowest numbers."""
    return max(1, round(size * share_percent / 100))


@cache
def _network(size: int, share_percent: int) -> CourtChain:
    members = members_of(size, share_percent)
    mine = STAKE_EACH * size * share_percent // 100
    bonds = (*[mine // members] * members, *[(STAKE_EACH * size - mine) // (size - members)] * (size - members))
    # Books beside the chain would take most of the time. Tests check them at the end of a play.
    made = CourtChain(size, bonds=bonds, check=lambda _bound, _issued: None)
    made.chain.blocks(SEATED_FROM)
    return made


def network(size: int, share_percent: int) -> CourtChain:
    """Return a copy of a network whose coalition has this share of the stake."""
    stage = copy(_network(size, share_percent))
    stage.chain = copy(stage.chain)
    stage.chain.events, stage.chain.all_events = [], []
    return stage


def provider_of(stage: CourtChain) -> Keys:
    """Return the provider of all cases."""
    return stage.racers[0]
