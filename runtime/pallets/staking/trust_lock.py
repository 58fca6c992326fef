"""TrustLock: money at stake for a case, and what happens to it when trust is broken.

Always: a lock is a hold of Balances, so each case is paid from what it holds itself; a lock ends
by being returned or paid out, and each moves exactly what it says; an offence is punished
once, is held from its report on, and taken an era later.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from runtime.blocks.evidence import Evidence
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
    Root,
    Signed,
    StorageValue,
    Weight,
    call,
    ensure,
    event,
    known,
)
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking import from_copies, held_slashes
from runtime.pallets.staking.offences import Offence, proven
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import (
    PPM,
    SLASH_FLOOR_PPM,
    SLASH_SLOPE,
    Share,
    SlashCurve,
    equivocation_ppm,
)
from runtime.pallets.staking.stakers import VALIDATORS_MAX, EraIndex
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.weights import WEIGHTS


@struct
class Offender:
    """Who offended in the current unbonding window, and how much of its exposure it has lost so far."""

    stash: AccountId
    epoch: U32
    era: EraIndex
    exposed: Grains
    """The stake behind it in that era."""
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
    """A validator contradicted itself. About `amount` will be taken from it and its delegators, an era later."""

    offender: AccountId
    kind: Offence
    at: U64
    """The slot of the headers, or the round of the votes."""
    epoch: U32
    slashed_ppm: U32
    amount: Grains
    reporter: AccountId


@event
class SlashRaised:
    """An earlier offender loses as much as the later ones make it deserve. About `amount` more will be taken."""

    offender: AccountId
    slashed_ppm: U32
    amount: Grains


class NotAnOffence(DispatchError):
    """The evidence proves nothing against a validator of the epoch that it names."""


class EvidenceTooOld(DispatchError):
    """The offence happened too long ago to be punished."""


class AlreadyPunished(DispatchError):
    """The validator was punished for this offence."""


class NoSlashHeld(DispatchError):
    """No slash of the validator waits to be taken."""


class TrustLock(Pallet, index=8):
    """Locks by case, offences and slashing."""

    storage_version = from_copies.VERSION

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake

    offenders: StorageValue[Offenders] = StorageValue(
        default=(), doc="Who offended within the unbonding window; the more stake, the higher the slash of each."
    )
    raised: StorageValue[U32] = StorageValue(default=0, doc="The slash that earlier offenders are being raised to.")

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
    events = (Locked, Unlocked, Paid, OffenceProven, SlashRaised)
    errors = (NotAnOffence, EvidenceTooOld, AlreadyPunished, NoSlashHeld)

    @call(index=0, weight=WEIGHTS["TrustLock.report_offence"])
    def report_offence(self, origin: Signed, evidence: Evidence) -> None:
        """Prove that a validator contradicted itself: two of its signed statements. Pays 10 % of the slash."""
        proof = known(proven(evidence, self.system.block_hash[0], self.stake.validators), NotAnOffence)
        now = self.beacon.epoch()
        epoch = min(proof.epoch, now)  # the offender wrote it: an epoch that lies ahead counts as now
        ensure(epoch + self.stake.evidence_epochs >= now, EvidenceTooOld)
        window = [past for past in self.offenders.get() if self._counts(past, now)]
        ensure(all(past.stash != proof.offender for past in window), AlreadyPunished)
        pardoned = self.stake.pardoned[proof.offender]
        ensure(pardoned is None or epoch > pardoned, AlreadyPunished)
        era = epoch // self.stake.era_epochs
        exposed = self.stake.offence_exposure(proof.offender, era)
        window.append(Offender(proof.offender, epoch, era, exposed.total, 0))
        ppm = self._deserved(window)
        amount = self._raise_to(window, len(window) - 1, ppm, origin.account)
        # The others one by one, in the blocks that follow: a call that holds 127 slashes would take a block. Nobody is
        # paid for those: else who has little at stake would offend after somebody else, and live on the other's slash.
        if any(past.slashed_ppm < ppm for past in window):
            self.raised.set(ppm)
        self.stake.tombstone(proof.offender)
        self.emit(OffenceProven(proof.offender, proof.kind, proof.at, epoch, ppm, amount, origin.account))

    @call(index=1, weight=WEIGHTS["TrustLock.cancel_slashes"])
    def cancel_slashes(self, origin: Root, offender: AccountId) -> None:
        """Take nothing of an offender for what waits, nor for what accomplices do later; its tombstone stays."""
        ensure(held_slashes.cancel(self.stake, offender) > 0, NoSlashHeld)
        window = self.offenders.get()
        excused = [replace(past, slashed_ppm=PPM) if past.stash == offender else past for past in window]
        self.offenders.set(tuple(excused))

    # ------------------------------------------------------------------------------------------------------------ hook

    def migrate(self, found: int) -> Weight:
        """From a raise with a reporter, and parameters that belong to the stakes now."""
        return from_copies.migrate_offences(self.overlay)

    def on_initialize(self) -> Weight | None:
        """Raise one earlier offender to what it deserves now, and take one slash that is due."""
        is_taken = held_slashes.take_due(self.stake)
        due = self.raised.get()
        if not due:
            return WEIGHTS["TrustLock.on_initialize strike"] if is_taken else None
        window = [past for past in self.offenders.get() if past.stash in self.stake.tombstones]
        behind = [place for place, past in enumerate(window) if past.slashed_ppm < due]
        if len(behind) <= 1:
            self.raised.remove()
        if behind:
            amount = self._raise_to(window, behind[0], due, None)
            self.emit(SlashRaised(window[behind[0]].stash, due, amount))
        return WEIGHTS["TrustLock.on_initialize strike"]

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

    def _counts(self, past: Offender, now: int) -> bool:
        """Whether an offence is of the window; not that of one whose tombstone Root has lifted."""
        return past.epoch + self.stake.unbonding_epochs >= now and past.stash in self.stake.tombstones

    def _deserved(self, window: list[Offender]) -> int:
        """What each offender of the window loses, in ppm of its exposure; no less than what some are raised to now."""
        eras = dict.fromkeys(offender.era for offender in window)
        total = max(*(self.stake.eras_total[era] for era in eras), *(offender.exposed for offender in window))
        offending = sum(offender.exposed for offender in window)
        deserved = equivocation_ppm(offending, total, SlashCurve(self.slash_floor, self.slash_slope))
        return max(deserved, self.raised.get())

    def _raise_to(self, window: list[Offender], place: int, ppm: int, reporter: bytes | None) -> int:
        """Raise one offender's slash, and write the window; the grains that the step would take now."""
        offender = window[place]
        # Raised, not added: each loses what all of them together deserve, whoever is reported first.
        step = SlashStep(offender.slashed_ppm, max(ppm, offender.slashed_ppm))
        window[place] = replace(offender, slashed_ppm=step.wanted)
        self.offenders.set(tuple(window))
        return held_slashes.hold_back(self.stake, offender.stash, offender.era, step, reporter)

    def _pay_held(self, who: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        self.balances.pay_held(who, hold, [(share.payee, share.amount) for share in shares])
