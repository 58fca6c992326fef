"""TrustLock: money at stake for a reason, and what happens to it when trust is broken.

Always: for each account the locks by reason add up to what TrustLock reserved on it; a lock ends
by being returned, paid out or slashed, and each moves exactly what it says; an offence is punished
once; a slash goes 50 % to burning, 40 % to the victim (else the treasury), 10 % to who proved it.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from runtime.encoding.codec import U32, U64, Bounded, struct
from runtime.encoding.types import AccountId
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import DispatchError, Pallet, Signed, StorageMap, StorageValue, call, ensure, event, known
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.double_headers import SealedHeader, double_proposal
from runtime.pallets.staking.exposures import Backing
from runtime.pallets.staking.slashing import Share, equivocation_ppm, slash_shares
from runtime.pallets.staking.stakers import VALIDATORS_MAX, EraIndex
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

WRONG_RESULT_PPM = 100_000


class LockReason(IntEnum):
    """Why TrustLock holds money."""

    UNIT = 0
    DEVICE_BOND = 1
    DEPOSIT = 2


@struct
class Lock:
    """What one account has locked for one reason."""

    reason: LockReason
    amount: Grains


@struct
class Offender:
    """Who offended in the current unbonding window, and how much of its exposure it has lost so far."""

    stash: AccountId
    epoch: U32
    era: EraIndex
    slashed_ppm: U32


Locks = Annotated[tuple[Lock, ...], Bounded(len(LockReason))]
Offenders = Annotated[tuple[Offender, ...], Bounded(VALIDATORS_MAX)]


@event
class Locked:
    """Money was put at stake."""

    who: AccountId
    reason: LockReason
    amount: Grains


@event
class Unlocked:
    """Money at stake came back to its owner."""

    who: AccountId
    reason: LockReason
    amount: Grains


@event
class Paid:
    """Money at stake went to somebody else; without a payee it was burned."""

    who: AccountId
    reason: LockReason
    payee: AccountId | None
    amount: Grains


@event
class OffenceProven:
    """A validator proposed twice in one slot. `amount` was taken from it, its delegators and its accomplices."""

    offender: AccountId
    slot: U64
    epoch: U32
    slashed_ppm: U32
    amount: Grains
    reporter: AccountId


@event
class WrongResultSlashed:
    """A provider lost a part of its bond for a wrong result."""

    provider: AccountId
    amount: Grains


class NotLocked(DispatchError):
    """Less than that is locked for this reason."""


class NotAnOffence(DispatchError):
    """The evidence proves nothing against a validator in office."""


class EvidenceTooOld(DispatchError):
    """The offence happened too long ago to be punished."""


class AlreadyPunished(DispatchError):
    """The validator was punished for this offence."""


class TrustLock(Pallet, index=8):
    """Locks by reason, offences and slashing."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake

    locks: StorageMap[AccountId, Locks] = StorageMap(default=(), doc="What is at stake, by account and reason.")
    offenders: StorageValue[Offenders] = StorageValue(
        default=(), doc="Who offended within the unbonding window; the more stake, the higher the slash of each."
    )

    events = (Locked, Unlocked, Paid, OffenceProven, WrongResultSlashed)
    errors = (NotLocked, NotAnOffence, EvidenceTooOld, AlreadyPunished)

    @call(index=0, weight=work(reads=200, writes=400, microseconds=100))
    def report_offence(self, origin: Signed, first: SealedHeader, second: SealedHeader) -> None:
        """Prove that a validator proposed twice in one slot: two of its sealed headers. Pays 10 % of the slash."""
        proven = double_proposal(first, second, self.system.block_hash[0], self._session_key)
        proof = known(proven, NotAnOffence)
        now = self.beacon.epoch()
        epoch = min(proof.epoch, now)  # the offender wrote it: an epoch that lies ahead counts as now
        ensure(epoch + self.stake.evidence_epochs >= now, EvidenceTooOld)
        window = [past for past in self.offenders.get() if past.epoch + self.stake.unbonding_epochs >= now]
        ensure(all(past.stash != proof.author for past in window), AlreadyPunished)
        window.append(Offender(proof.author, epoch, epoch // self.stake.era_epochs, 0))
        ppm, struck = self._punish(window)
        self.stake.tombstone(proof.author)
        amount = self._distribute(struck, victim=None, rewarded=(origin.account,))
        self.emit(OffenceProven(proof.author, proof.slot, epoch, ppm, amount, origin.account))

    # ----------------------------------------------------------------------------------------- verbs for other pallets

    def locked(self, who: bytes, reason: LockReason) -> int:
        """What the account has at stake for a reason."""
        return next((lock.amount for lock in self.locks[who] if lock.reason == reason), 0)

    def lock(self, who: bytes, reason: LockReason, amount: int) -> None:
        """Put `amount` of the account's free money at stake; FundsUnavailable if it has less."""
        if amount:
            self.balances.reserve(who, amount)
            self._change(who, reason, amount)
            self.emit(Locked(who, reason, amount))

    def unlock(self, who: bytes, reason: LockReason, amount: int) -> None:
        """Return `amount` to its owner; NotLocked if less is at stake."""
        self.pay_out(who, reason, (Share(who, amount),))

    def pay_out(self, who: bytes, reason: LockReason, shares: Iterable[Share]) -> None:
        """End a lock by paying its money to the payees of `shares`; NotLocked if less is at stake."""
        held = self.locked(who, reason)
        ended = 0
        for share in shares:
            if not share.amount:
                continue
            self._change(who, reason, -share.amount)
            ended += share.amount
            if share.payee == who:
                self.balances.unreserve(who, share.amount)
                self.emit(Unlocked(who, reason, share.amount))
                continue
            self._pay_reserved(who, share)
            self.emit(Paid(who, reason, share.payee, share.amount))
        assert self.locked(who, reason) == held - ended, "a lock ends by what was paid of it, and no more"

    def slash(
        self, who: bytes, reason: LockReason, amount: int, *, victim: bytes | None, rewarded: tuple[bytes, ...] = ()
    ) -> int:
        """Slash a lock by `amount`, or by what there is; the grains taken."""
        taken = min(amount, self.locked(who, reason))
        self.pay_out(who, reason, slash_shares(taken, treasury=TREASURY, victim=victim, rewarded=rewarded))
        return taken

    def slash_wrong_result(self, provider: bytes, *, victim: bytes, rewarded: tuple[bytes, ...]) -> int:
        """Slash 10 % of a provider's own bond for a wrong result; the grains taken. It may go on."""
        struck = self.stake.slash_own(provider, WRONG_RESULT_PPM)
        amount = self._distribute(struck, victim=victim, rewarded=rewarded)
        self.emit(WrongResultSlashed(provider, amount))
        return amount

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _session_key(self, author: bytes) -> bytes | None:
        seat = self.stake.seat_of(author)
        return seat.session_key if seat else None

    def _punish(self, window: list[Offender]) -> tuple[int, tuple[Backing, ...]]:
        """Raise every offender of the window to the slash that all of them together deserve.

        Returns that slash in ppm, and what was struck from whom.
        """
        exposures = [self.stake.offence_exposure(offender.stash, offender.era) for offender in window]
        ppm = equivocation_ppm(sum(exposed.total for exposed, _ in exposures), max(total for _, total in exposures))
        struck: list[Backing] = []
        punished = []
        for offender, (exposed, _) in zip(window, exposures, strict=True):
            # Raised, not added: each loses what all of them together deserve, whoever is reported first.
            struck += self.stake.slash_exposure(offender.stash, exposed, max(0, ppm - offender.slashed_ppm))
            punished.append(replace(offender, slashed_ppm=max(ppm, offender.slashed_ppm)))
        self.offenders.set(tuple(punished))
        return ppm, tuple(struck)

    def _distribute(self, struck: Iterable[Backing], *, victim: bytes | None, rewarded: tuple[bytes, ...]) -> int:
        """Pay on what was struck from stakes; the grains paid."""
        amount = 0
        for loss in struck:
            amount += loss.value
            for share in slash_shares(loss.value, treasury=TREASURY, victim=victim, rewarded=rewarded):
                self._pay_reserved(loss.who, share)
        return amount

    def _pay_reserved(self, who: bytes, share: Share) -> None:
        if share.payee is None:
            self.balances.slash_reserved(who, share.amount)
        else:
            self.balances.repatriate_reserved(who, share.payee, share.amount)

    def _change(self, who: bytes, reason: LockReason, delta: int) -> None:
        amounts = {lock.reason: lock.amount for lock in self.locks[who]}
        amounts[reason] = amounts.get(reason, 0) + delta
        ensure(amounts[reason] >= 0, NotLocked)
        kept = tuple(Lock(LockReason(key), amounts[key]) for key in sorted(amounts) if amounts[key])
        if kept:
            self.locks[who] = kept
        else:
            del self.locks[who]
        # The money of a lock that shrinks is still reserved here: it moves after this.
        locked = sum(lock.amount for lock in kept) + max(0, -delta)
        assert locked <= self.balances.reserved_balance(who), "a lock that nobody reserved"
