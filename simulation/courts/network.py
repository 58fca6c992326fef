"""The network of the units: validators with a coalition among them, a Sybil beside them, one service with one price.

Invariant: a network is made once and never changes. Each unit is played on a copy.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.pots import RESERVE
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    CUSTOMER,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    MarketChain,
    Step,
    named_keys,
    per_thousand,
    registers,
    signed,
    validates,
)

PRICE = OGPU
SERVICE = 1
"""A service with one price, unlike that of a `MarketChain`, whose price rises with a unit's age."""
STAKE_EACH = 100 * OGPU
SYBIL_BOND = 400_000 * OGPU
"""The bond of its device. It is drawn first for nine of ten units, with any number of other devices."""
EPOCH_BLOCKS = 2_000
"""Longer than a unit's life, so the active set does not change."""
POT = 1_000 * OGPU
SEATED_FROM = 3
"""Blocks until every key is old enough to be sealed to."""


@dataclass(frozen=True)
class Network:
    """The chain before any unit, and its parties."""

    chain: MarketChain
    members: tuple[Keys, ...]
    """The coalition's validators."""
    others: tuple[Keys, ...]
    """The honest validators."""
    sybil: Keys
    """A provider outside the active set whose device is almost always drawn, if it offers."""

    def copy(self) -> MarketChain:
        """Return a copy of the chain, for one unit."""
        chain = copy(self.chain)
        chain.events, chain.all_events = [], []
        return chain


@cache
def network(size: int, share_percent: int, *, has_sybil: bool) -> Network:
    """Return a network whose coalition has this share of the stake."""
    validators, sybil = named_keys(size), Keys("sybil")
    members = max(1, round(size * share_percent / 100))
    mine = STAKE_EACH * size * share_percent // 100
    others = STAKE_EACH * size - mine
    chain = MarketChain(
        validators,
        [sybil],
        {"TrustStake.validator_count": 64},
        bonds=(*[mine // members] * members, *[others // (size - members)] * (size - members)),
        epoch_blocks=EPOCH_BLOCKS,
        check=lambda _bound, _issued: None,
    )
    chain.block(_fill_pot, _create_service(), *_offers(validators))
    if has_sybil:
        chain.block(_endow(sybil), *_sybil_joins(sybil))
    chain.blocks(SEATED_FROM)
    return Network(chain, tuple(validators[:members]), tuple(validators[members:]), sybil)


def _fill_pot(bound: Bound) -> None:
    bound[Courts].pay_premium(CUSTOMER.stash, POT)


def _create_service() -> Step:
    terms = ServiceTerms(
        name=b"one price",
        workload=WORKLOAD,
        model=MODEL,
        price_min=per_thousand(PRICE),
        price_max=per_thousand(PRICE),
        ramp=0,
        commit_window=30,
        tokens_max=256,
    )
    return signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms))


def _offers(owners: list[Keys]) -> Iterator[Step]:
    for keys in owners:
        yield signed(keys.stash, InferenceMarket.offer(device=keys.device, service=SERVICE, ask=per_thousand(PRICE)))


def _endow(keys: Keys) -> Step:
    def step(bound: Bound) -> None:
        balances = bound[Balances]
        balances.debit(RESERVE, SYBIL_BOND)
        balances.credit(keys.stash, SYBIL_BOND)

    return step


def _sybil_joins(keys: Keys) -> Iterator[Step]:
    calls = (
        TrustStake.bond(value=STAKE_EACH),
        validates(keys),
        registers(keys),
        Devices.register_device(kind=DeviceClass.CPU, uuid_hash=keys.uuid_hash, bond=SYBIL_BOND),
    )
    for call in calls:
        yield signed(keys.stash, call)
    yield from _offers([keys])
