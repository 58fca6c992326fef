"""TrustLock: money at stake for a case, and what happens to it when trust is broken.

Always: a lock is a hold of Balances, so each case is paid from what it holds itself; a lock ends
by being returned or paid out, and each moves exactly what it says; an offence is punished
once; what it costs is split between burning, the treasury and who proved it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from runtime.encoding.codec import U32, U64, Bounded, struct
from runtime.encoding.types import AccountId
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import (
    CaseId,
    DispatchError,
    Hold,
    HoldReason,
    Pallet,
    Parameter,
    Signed,
    StorageValue,
    call,
    ensure,
    event,
    known,
)
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.double_headers import SealedHeader, double_proposal
from runtime.pallets.staking.slashing import (
    REPORTER_PPM,
    SLASH_FLOOR_PPM,
    SLASH_SLOPE,
    VICTIM_PPM,
    Loss,
    Share,
    SlashCurve,
    SlashSplit,
    equivocation_ppm,
    slash_shares,
)
from runtime.pallets.staking.stakers import VALIDATORS_MAX, EraIndex
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


@struct
class Offender:
    """Who offended in the current unbonding window, and how much of its exposure it has lost so far."""

    stash: AccountId
    epoch: U32
    era: EraIndex
    slashed_ppm: U32


Offenders = Annotated[tuple[Offender, ...], Bounded(VALIDATORS_MAX)]


@event
class Locked:
    """Money was put at stake."""

    who: AccountId
    reason: HoldReason
    case: CaseId
    amount: Grains


@event
class Unlocked:
    """Money at stake came back to its owner."""

    who: AccountId
    reason: HoldReason
    case: CaseId
    amount: Grains


@event
class Paid:
    """Money at stake went to somebody else; without a payee it was burned."""

    who: AccountId
    reason: HoldReason
    case: CaseId
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


class NotAnOffence(DispatchError):
    """The evidence proves nothing against a validator in office."""


class EvidenceTooOld(DispatchError):
    """The offence happened too long ago to be punished."""


class AlreadyPunished(DispatchError):
    """The validator was punished for this offence."""


class TrustLock(Pallet, index=8):
    """Locks by case, offences and slashing."""

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake

    offenders: StorageValue[Offenders] = StorageValue(
        default=(), doc="Who offended within the unbonding window; the more stake, the higher the slash of each."
    )

    slash_floor: Parameter[U32] = Parameter(
        SLASH_FLOOR_PPM,
        unit="ppm",
        least=1_000,
        greatest=1_000_000,
        doc="Of the stake, for an offence of consensus at least: a lone mistake is survivable.",
    )
    slash_slope: Parameter[U32] = Parameter(
        SLASH_SLOPE,
        unit="times",
        least=1,
        greatest=10,
        doc="A slash is (so many times the share of stake that offended), squared: a third together loses everything.",
    )
    slash_treasury: Parameter[U32] = Parameter(
        VICTIM_PPM,
        unit="ppm",
        least=0,
        greatest=1_000_000,
        doc="Of a slash for an offence of consensus.",
    )
    slash_reporter: Parameter[U32] = Parameter(
        REPORTER_PPM,
        unit="ppm",
        least=1,
        greatest=500_000,
        doc="Of a slash for an offence of consensus, to who proved it: to report must pay.",
    )

    events = (Locked, Unlocked, Paid, OffenceProven)
    errors = (NotAnOffence, EvidenceTooOld, AlreadyPunished)

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
        split = SlashSplit(self.slash_treasury, self.slash_reporter)
        amount = self._distribute(struck, split, victim=None, rewarded=(origin.account,))
        self.emit(OffenceProven(proof.author, proof.slot, epoch, ppm, amount, origin.account))

    # ----------------------------------------------------------------------------------------- verbs for other pallets

    def locked(self, who: bytes, hold: Hold) -> int:
        """What the account has at stake for a case."""
        return self.balances.held(who, hold)

    def lock(self, who: bytes, hold: Hold, amount: int) -> None:
        """Put `amount` of the account's free money at stake for a case; FundsUnavailable if it has less."""
        if amount:
            self.balances.hold(who, hold, amount)
            self.emit(Locked(who, hold.reason, hold.case, amount))

    def unlock(self, who: bytes, hold: Hold, amount: int) -> None:
        """Return `amount` to its owner."""
        self.pay_out(who, hold, (Share(who, amount),))

    def rededicate(self, who: bytes, source: Hold, target: Hold, amount: int) -> None:
        """Have `amount` stand for the case `target` from here, and for `source` no more."""
        self.balances.rededicate(who, source, target, amount)

    def pay_out(self, who: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        """Pay the payees of `shares` from what the account has at stake for a case."""
        before = self.locked(who, hold)
        self._pay_held(who, hold, shares)
        for share in shares:
            if share.payee == who and share.amount:
                self.emit(Unlocked(who, hold.reason, hold.case, share.amount))
            elif share.amount:
                self.emit(Paid(who, hold.reason, hold.case, share.payee, share.amount))
        ended = sum(share.amount for share in shares)
        assert self.locked(who, hold) == before - ended, "a lock ends by what was paid of it, and no more"

    def end(self, hold: Hold) -> None:
        """Where a case ends: nobody has anything at stake for it."""
        self.balances.check_ended(hold)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _session_key(self, author: bytes) -> bytes | None:
        seat = self.stake.seat_of(author)
        return seat.session_key if seat else None

    def _punish(self, window: list[Offender]) -> tuple[int, tuple[Loss, ...]]:
        """Raise every offender of the window to the slash that all of them together deserve.

        Returns that slash in ppm, and what was struck from whom.
        """
        exposures = [self.stake.offence_exposure(offender.stash, offender.era) for offender in window]
        offending, total = sum(exposed.total for exposed, _ in exposures), max(total for _, total in exposures)
        ppm = equivocation_ppm(offending, total, SlashCurve(self.slash_floor, self.slash_slope))
        struck: list[Loss] = []
        punished = []
        for offender, (exposed, _) in zip(window, exposures, strict=True):
            # Raised, not added: each loses what all of them together deserve, whoever is reported first.
            struck += self.stake.slash_exposure(offender.stash, exposed, max(0, ppm - offender.slashed_ppm))
            punished.append(replace(offender, slashed_ppm=max(ppm, offender.slashed_ppm)))
        self.offenders.set(tuple(punished))
        return ppm, tuple(struck)

    def _distribute(
        self, struck: Iterable[Loss], split: SlashSplit, *, victim: bytes | None, rewarded: tuple[bytes, ...]
    ) -> int:
        """Pay on what was struck from stakes; the grains paid."""
        amount = 0
        for loss in struck:
            amount += loss.amount
            shares = slash_shares(loss.amount, split, treasury=TREASURY, victim=victim, rewarded=rewarded)
            self._pay_held(loss.who, loss.hold, shares)
        return amount

    def _pay_held(self, who: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        self.balances.pay_held(who, hold, [(share.payee, share.amount) for share in shares])
