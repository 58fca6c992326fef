"""The network of the claims: validators with a coalition among them, and claims whose first checker is drawn.

Invariant: a network and its claims never change. Each play begins with a copy. The terms draw points for certain, and
`results` weighs the play of a claim with one item by the chance of a draw. So all habits share the claims, and the
collateral is that of the claim's rate.
"""

from copy import copy
from dataclasses import dataclass
from functools import cache
from random import Random

from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.collateral import PPM, item_rate, least_collateral
from gpu_tasks.market.claims.result_claims import ResultClaims
from simulation.chains.claim_chain import PRICE, ClaimChain
from simulation.chains.market_chain import OGPU, Keys, MarketChain
from simulation.claims.habits import Party

STAKE_EACH = 1_000 * OGPU
EPOCH_BLOCKS = 4_000
"""Longer than a claim, so the active set does not change."""
SHORT = {
    "ResultClaims.duty_blocks": 4,
    "Disputes.vote_blocks": 4,
    "Disputes.open_blocks": 4,
    "Disputes.appeal_blocks": 4,
}
"""Short windows: the accounts here act at once, or never."""
SEATED_FROM = 3
"""Blocks until every key is old enough to be sealed to."""


@dataclass(frozen=True)
class Setting:
    """A network of validators, the coalition's share of the stake, the chance of a draw, and the appeals."""

    size: int
    share_percent: int
    rate_ppm: int = PPM
    has_appeals: bool = True
    """True if a party appeals against a decision that it finds wrong. An appeal is free."""
    seed: int = 1

    @property
    def members(self) -> int:
        """The number of the coalition's validators, which have the lowest numbers."""
        return max(1, round(self.size * self.share_percent / 100))


@dataclass(frozen=True)
class DrawnPoints:
    """A claim whose first checker is drawn, and the state before it opened."""

    chain: MarketChain
    before: MarketChain
    claim_id: bytes
    provider: Keys
    stranger: Keys
    """An account outside of the active set, for disputes."""
    first: bytes
    """The first checker."""


@cache
def network(size: int, share_percent: int) -> ClaimChain:
    """Return a network whose coalition has this share of the stake."""
    members = Setting(size, share_percent).members
    mine = STAKE_EACH * size * share_percent // 100
    bonds = (*[mine // members] * members, *[(STAKE_EACH * size - mine) // (size - members)] * (size - members))
    found = ClaimChain(size, constants=SHORT, bonds=bonds, epoch_blocks=EPOCH_BLOCKS)
    found.chain.blocks(SEATED_FROM)
    # Books beside the chain would take most of the time. Every play checks them at its end.
    found.chain.check = lambda _bound, _issued: None
    return found


@cache
def drawn(setting: Setting, party: Party, number: int, items: int = 1) -> DrawnPoints:
    """Return claim number `number` of a setting with so many items, for habits of a party.

    The first checker of `CHECKER` is a member. The provider is a member only if it is the deviating party.
    """
    base = network(setting.size, setting.share_percent)
    validators = base.chain.validators
    provider = validators[0] if party is Party.PROVIDER else validators[-1]
    members = {keys.stash for keys in validators[: setting.members]}
    for attempt in range(1_000):
        stage = copy(base)
        stage.chain, stage.owner = copied(base.chain, f"{setting.seed}/{number}/{attempt}"), provider
        # The checks of a claim with one item and a lower rate are the same, only its collateral differs.
        vote_fee, rate_ppm = stage.terms().fees_held // 2, item_rate(items, PPM)
        held = least_collateral(PRICE, items=items, rate_ppm=setting.rate_ppm, vote_fee=vote_fee)
        claim_id = stage.open(items=items, rate_ppm=rate_ppm, collateral=held, sealed_at=stage.chain.height)
        stage.run(claim_id, until=ClaimStage.COMMITTING)
        first = stage.claim(claim_id).checks[0].checker
        if party is not Party.CHECKER or first in members:
            return DrawnPoints(stage.chain, base.chain, claim_id, provider, base.stranger, first)
    raise AssertionError("no member of the coalition is drawn")


def copied(chain: MarketChain, seed: str) -> MarketChain:
    """Return a copy of a chain, with other beacons from here on."""
    found = copy(chain)
    found.events, found.all_events, found.chance = [], [], Random(seed)
    return found


def is_open(chain: MarketChain, claim_id: bytes) -> bool:
    """Return whether a claim is not over."""
    return chain.now()[ResultClaims].is_open(claim_id)
