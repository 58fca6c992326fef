"""Storage version 1: stakes that were copied for every era become shares, in the first block of the new program.

TrustStake's storage, and the little of TrustLock's that changed with it.

Always: what each account has free, behind validators and on its way out is what it was; what it had earned and nobody
had asked for is credited to it (`TrustStake.claim` of itself), with the dust where it was: at the validator.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from runtime.encoding.codec import U32, Bounded, codec, struct
from runtime.encoding.types import AccountId, Balance, Weight
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.storage import storage_prefix
from runtime.pallets.pots import RESERVE, STAKES, STAKING_REWARDS
from runtime.pallets.staking.delegations import Pool, Position
from runtime.pallets.staking.exposures import Exposure
from runtime.pallets.staking.share_pool import SHARES_PER_GRAIN, SharePool
from runtime.pallets.staking.slash_factors import Liability
from runtime.pallets.staking.slashing import part
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import STAKE, UNLOCKING_MAX, EpochIndex, Unlocking
from runtime.pallets.weights import WEIGHTS
from runtime.state.overlay import Overlay

VERSION = 1
ACCOUNT_BYTES, INDEX_BYTES, HASH_BYTES, PPM_BYTES = 32, 4, 16, 4


@struct
class CopiedBacking:
    """One account's stake behind a validator."""

    who: AccountId
    value: Balance


@struct
class CopiedExposure:
    """The stake behind one validator, with everybody whose it was."""

    total: Balance
    own: Balance
    others: Annotated[tuple[CopiedBacking, ...], Bounded(256)]
    commission_ppm: U32


@struct
class CopiedReward:
    """What an era emitted to validators, and how much of it nobody had asked for."""

    total: Balance
    unclaimed: Balance


@struct
class CopiedUnlocking:
    """Stake on its way out."""

    validator: AccountId
    value: Balance
    until_epoch: EpochIndex


def migrate(stake: StakeLedger) -> Weight:
    """All of it at once: a chain that has had so few epochs has few delegators."""
    records = _share_rewards(stake)
    records += _shrink_exposures(stake)
    records += _move_stakes(stake)
    records += _move_chunks(stake)
    for gone in ("Backing", "DelegatorCount", "Claimed"):
        for key, _ in _entries(stake, gone):
            stake.overlay.store(key, None, None)
    return times(records, WEIGHTS["TrustStake.delegate"])


def migrate_offences(overlay: Overlay) -> Weight:
    """Of TrustLock: nobody is paid any more for a raise that waits, and how a slash is parted is said by TrustStake."""
    raised = storage_prefix("TrustLock", "Raised")
    waiting = overlay.raw(raised)
    if waiting is not None:
        overlay.store_raw(raised, waiting[:PPM_BYTES])
    for parameter in ("SlashTreasury", "SlashReporter"):
        before = storage_prefix("TrustLock", parameter)
        set_to = overlay.raw(before)
        if set_to is not None:
            overlay.store_raw(storage_prefix("TrustStake", parameter), set_to)
            overlay.store(before, None, None)
    return WEIGHTS["TrustLock.on_initialize strike"]


def _share_rewards(stake: StakeLedger) -> int:
    """Credit what era after era earned and nobody had asked for; what nobody earned goes back to the reserve."""
    claimed = {_era_and_account(key) for key, _ in _entries(stake, "Claimed")}
    exposures = {_era_and_account(key): raw for key, raw in _entries(stake, "ErasExposure")}
    credited: Counter[bytes] = Counter()
    for key, raw in _entries(stake, "ErasReward"):
        era, reward = _index(key, 0), codec(CopiedReward).decode(raw)
        points = stake.eras_points[era]
        total = sum(entry.points for entry in points)
        for entry in points:
            if (era, entry.stash) in exposures and (era, entry.stash) not in claimed:
                exposed = codec(CopiedExposure).decode(exposures[era, entry.stash])
                credited += _shares(reward.total * entry.points // total, entry.stash, exposed)
        stake.overlay.store(key, None, None)
        stake.eras_reward[era] = reward.total
    for account, amount in sorted(credited.items()):
        stake.earned[account] += amount
    left = stake.balances.free_balance(STAKING_REWARDS) - sum(credited.values())
    stake.pay_from(STAKING_REWARDS, RESERVE, max(0, left))
    return len(credited) + len(exposures)


def _shares(reward: int, validator: bytes, exposed: CopiedExposure) -> Counter[bytes]:
    """As it was: commission first, the rest by stake, dust to the validator."""
    rest = reward - part(reward, exposed.commission_ppm)
    shares: Counter[bytes] = Counter()
    for backing in exposed.others if exposed.total else ():
        shares[backing.who] += rest * backing.value // exposed.total
    shares[validator] += reward - sum(shares.values())
    return shares


def _shrink_exposures(stake: StakeLedger) -> int:
    found = list(_entries(stake, "ErasExposure"))
    for key, raw in found:
        exposed = codec(CopiedExposure).decode(raw)
        stake.overlay.store(key, None, None)
        stake.eras_exposure[_era_and_account(key)] = Exposure(exposed.total, exposed.own, exposed.commission_ppm)
    return len(found)


def _move_stakes(stake: StakeLedger) -> int:
    """Own bonds stay where they are held; delegations are shares of what `STAKES` holds, at the first price."""
    found, era = list(_entries(stake, "Stakes")), stake.current_era.get()
    for key, raw in found:
        stake.overlay.store(key, None, None)
        validator, staker = _account(key, 0), _account(key, HASH_BYTES + ACCOUNT_BYTES)
        value = int.from_bytes(raw, "little")
        if staker == validator:
            stake.bonds[validator] = value
            continue
        pool, shares = stake.pools[validator], value * SHARES_PER_GRAIN
        joined = SharePool(pool.stake.value + value, pool.stake.shares + shares)
        stake.pools[validator] = Pool(joined, delegators=pool.delegators + 1)
        stake.positions[staker, validator] = Position(shares, era=era)
        stake.balances.sustain(staker, 1)
        _entrust(stake, staker, validator, value)
    return len(found)


def _move_chunks(stake: StakeLedger) -> int:
    """What waits answers for what its validator did until it left."""
    found = list(_entries(stake, "Unlocking"))
    chunks_codec: Any = codec(Annotated[tuple[CopiedUnlocking, ...], Bounded(UNLOCKING_MAX)])
    for key, raw in found:
        stake.overlay.store(key, None, None)
        staker = _account(key, 0)
        chunks = []
        for chunk in chunks_codec.decode(raw):
            left_in = max(0, chunk.until_epoch - stake.unbonding_epochs) // stake.era_epochs
            answers = (Liability(chunk.validator, left_in, ()),)
            chunks.append(Unlocking(chunk.validator, chunk.value, chunk.until_epoch, answers))
        stake.set_unlocking(staker, tuple(chunks))
        for chunk in chunks:
            if chunk.validator != staker:
                stake.change_leaving(chunk.validator, chunk.value)
                _entrust(stake, staker, chunk.validator, chunk.value)
    return len(found)


def _entrust(stake: StakeLedger, staker: bytes, validator: bytes, amount: int) -> None:
    hold = Hold(STAKE, validator)
    stake.balances.pay_held(staker, hold, ((STAKES, amount),))
    stake.balances.hold(STAKES, hold, amount)


def _entries(stake: StakeLedger, item: str) -> Iterator[tuple[bytes, bytes]]:
    for key in list(stake.overlay.keys(storage_prefix("TrustStake", item))):
        raw = stake.overlay.raw(key)
        if raw is not None:
            yield key, raw


def _account(key: bytes, begin: int) -> bytes:
    """The account in a storage key, behind its hash, so far behind the prefix."""
    begin += 2 * HASH_BYTES + HASH_BYTES
    return key[begin : begin + ACCOUNT_BYTES]


def _index(key: bytes, begin: int) -> int:
    begin += 2 * HASH_BYTES + HASH_BYTES
    return int.from_bytes(key[begin : begin + INDEX_BYTES], "little")


def _era_and_account(key: bytes) -> tuple[int, bytes]:
    return _index(key, 0), _account(key, HASH_BYTES + INDEX_BYTES)
