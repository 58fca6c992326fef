"""The migration of TrustLock's offenders: who offended under the program before keeps its share of its era's stake."""

from typing import Annotated

from offending import REPORTER, chain_of
from runtime.encoding.codec import Bounded, codec
from runtime.frame.runtime import Bound
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import migrate, version_key, version_value
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.from_exposures import ExposedOffender
from runtime.pallets.staking.offences import Offender
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.chains.evidence import double
from scripts.chains.market_chain import BOND, MarketChain, signed


def migrated(chain: MarketChain, *offenders: ExposedOffender) -> None:
    """The state after the migration from what the program before left."""
    bound: Bound = chain.now()
    raw = codec(Annotated[tuple[ExposedOffender, ...], Bounded(128)]).encode(offenders)
    if offenders:
        bound.overlay.store_raw(storage_prefix("TrustLock", "Offenders"), raw)
    bound.overlay.store_raw(version_key("TrustLock"), version_value(1))
    migrate(bound.pallets)
    chain.state = chain.state.updated(bound.overlay.changes())


def test_an_offender_of_before_counts_with_its_share_and_is_raised() -> None:
    chain = chain_of(7)
    alice, bob = chain.validators[:2]
    chain.block(signed(REPORTER.stash, double(alice)))
    alone = chain.happened(tl.OffenceProven)[0].slashed_ppm
    migrated(chain, ExposedOffender(alice.stash, 0, 0, BOND, alone))
    assert chain.now()[TrustLock].offenders.get() == (Offender(alice.stash, 0, 0, BOND, alone, 7 * BOND),)
    chain.block(signed(REPORTER.stash, double(bob)))
    assert chain.happened(tl.OffenceProven)[1].slashed_ppm == 36 * 10**6 // 49
    chain.blocks(2)
    assert [raised.offender for raised in chain.happened(tl.SlashRaised)] == [alice.stash]


def test_of_an_era_that_is_forgotten_the_offender_is_all_there_is() -> None:
    chain = chain_of(4)
    migrated(chain, ExposedOffender(REPORTER.stash, 9, 9, 5, 1))
    assert [past.total for past in chain.now()[TrustLock].offenders.get()] == [5]


def test_where_nobody_offended_nothing_is_written() -> None:
    chain = chain_of(4)
    migrated(chain)
    bound = chain.now()
    assert bound.overlay.raw(storage_prefix("TrustLock", "Offenders")) is None
    assert bound[TrustStake].seats.get()
