"""TrustLock: money locked for a case, and the punishment of offences.

Invariant: a lock is a hold of Balances, so each case is paid from its own hold. A lock ends by being returned or paid
out, and each moves exactly the stated amount. An offence is punished once: its slash is held from the report on, and
taken an era later.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from runtime.blocks.digest import find_author
from runtime.blocks.evidence import DoubleBallot, DoubleHeader, DoubleProposal, Evidence
from runtime.encoding.codec import U32, U64, Bounded
from runtime.encoding.types import AccountId
from runtime.encoding.types import Balance as Grains
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.pallet import (
    CaseId,
    DispatchError,
    Hold,
    HoldReason,
    Pallet,
    Parameter,
    PostDispatch,
    Root,
    Signed,
    StorageValue,
    Unsigned,
    Weight,
    call,
    ensure,
    event,
    known,
)
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking import held_slashes
from runtime.pallets.staking.offences import Offence, Offender, Offenders, ProvenOffence, proven
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import (
    PPM,
    SLASH_FLOOR_PPM,
    SLASH_SLOPE,
    Share,
    SlashCurve,
    equivocation_ppm,
)
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.weights import WEIGHTS

PROOFS_MAX = 4
"""The most proofs of a block. An honest chain has none, and each offender needs only one."""
Proofs = Annotated[tuple[Evidence, ...], Bounded(PROOFS_MAX)]


def _attach_weight(proof_list: tuple[object, ...]) -> Weight:
    return WEIGHTS["TrustLock.attach_evidence"] + times(len(proof_list), WEIGHTS["TrustLock.attach_evidence proof"])


@event
class Locked:
    """Money was locked for a case."""

    who: AccountId
    reason: HoldReason
    case: CaseId
    amount: Grains


@event
class Unlocked:
    """Locked money was returned to its owner."""

    who: AccountId
    reason: HoldReason
    case: CaseId
    amount: Grains


@event
class Paid:
    """Locked money was paid to another account, or burned without a payee."""

    who: AccountId
    reason: HoldReason
    case: CaseId
    payee: AccountId | None
    amount: Grains


@event
class OffenceProven:
    """A validator's offence was proven. An era later about `amount` is taken from it and its delegators."""

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
    """Later offences raised an earlier offender's slash. About `amount` more will be taken."""

    offender: AccountId
    slashed_ppm: U32
    amount: Grains


class NotAnOffence(DispatchError):
    """The evidence proves nothing against a validator of its epoch."""


class EvidenceTooOld(DispatchError):
    """The offence happened too long ago to be punished."""


class AlreadyPunished(DispatchError):
    """The validator was already punished for this offence."""


class NoSlashHeld(DispatchError):
    """The validator has no unapplied slash."""


class TrustLock(Pallet, index=8):
    """Locks by case, offences and slashing."""

    storage_version = 2

    system: System
    balances: Balances
    beacon: Beacon
    stake: TrustStake

    offenders: StorageValue[Offenders] = StorageValue(
        default=(), doc="Offenders within the unbonding period. The more stake offends, the higher each slash."
    )
    raised: StorageValue[U32] = StorageValue(
        default=0, doc="The slash to which those of earlier offenders are being raised."
    )

    slash_floor: Parameter[U32] = Parameter(
        SLASH_FLOOR_PPM,
        unit="ppm",
        least=1_000,
        greatest=1_000_000,
        doc="Least slash for a consensus offence. A lone mistake is survivable.",
    )
    slash_slope: Parameter[U32] = Parameter(
        SLASH_SLOPE,
        unit="times",
        least=1,
        greatest=10,
        doc="Slope of slashes: a slash is (slope x offending share of stake) squared. A third together loses "
        "everything.",
    )
    events = (Locked, Unlocked, Paid, OffenceProven, SlashRaised)
    errors = (NotAnOffence, EvidenceTooOld, AlreadyPunished, NoSlashHeld)

    @call(index=0, weight=WEIGHTS["TrustLock.report_offence"])
    def report_offence(self, origin: Signed, evidence: Evidence) -> None:
        """Report a validator's offence: two contradicting signed statements. Pays the signer 10 % of the slash."""
        # Beside the inherent, for evidence that authors do not attach (ADR 25).
        self._punish(self.judge(evidence), origin.account)

    @call(index=1, weight=WEIGHTS["TrustLock.cancel_slashes"])
    def cancel_slashes(self, origin: Root, offender: AccountId) -> None:
        """Cancel an offender's unapplied slashes, and any raise by later offences. Its tombstone stays."""
        ensure(held_slashes.cancel(self.stake, offender) > 0, NoSlashHeld)
        window = self.offenders.get()
        # As if slashed whole, so that no later offence can raise it.
        excused = [replace(earlier, slashed_ppm=PPM) if earlier.stash == offender else earlier for earlier in window]
        self.offenders.set(tuple(excused))

    @call(index=2, weight=_attach_weight)
    def attach_evidence(self, origin: Unsigned, proofs: Proofs) -> PostDispatch:
        """Punish offenders by the author's evidence, and pay the author as reporter.

        Raises InvalidBlock if one piece of evidence is invalid.
        """
        author = find_author(self.system.digest.get())
        if not proofs or author is None:
            raise InvalidBlock("no evidence, or a block without an author")
        weight = _attach_weight(proofs)
        if not weight.fits(self.room()):
            raise InvalidBlock("evidence heavier than the room left in the block")
        for evidence in proofs:
            self._punish(self.judge(evidence), author)
        return PostDispatch(actual_weight=weight)

    # -------------------------------------------------------------------------------------------------------- queries

    def judge(self, evidence: DoubleHeader | DoubleProposal | DoubleBallot) -> ProvenOffence:
        """Return the proven offence. Raise NotAnOffence, EvidenceTooOld or AlreadyPunished."""
        offence = known(proven(evidence, self.system.block_hash[0], self.stake.validators), NotAnOffence)
        current_epoch = self.beacon.epoch()
        counted_epoch = self._counted_epoch(offence)
        ensure(counted_epoch + self.stake.evidence_epochs >= current_epoch, EvidenceTooOld)
        # One slash and tombstone cover all its offences, so repeated reports must not pay again.
        ensure(not self.is_punished(offence.offender), AlreadyPunished)
        pardoned = self.stake.lifted_tombstones[offence.offender]
        ensure(pardoned is None or counted_epoch > pardoned, AlreadyPunished)
        return offence

    def is_punished(self, offender: bytes) -> bool:
        """Return True if an offence of the validator is in the window: one punishment covers all its offences."""
        return any(earlier.stash == offender for earlier in self._window())

    def room(self) -> Weight:
        """Return the weight left for evidence in the block under construction."""
        return Weight(max(0, self.context.mandatory_left), 0)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight | None:
        """Raise the slash of one earlier offender to the current level, and take one slash that is due."""
        is_taken = held_slashes.take_due(self.stake)
        raised_ppm = self.raised.get()
        if not raised_ppm:
            return WEIGHTS["TrustLock.on_initialize strike"] if is_taken else None
        window = [earlier for earlier in self.offenders.get() if earlier.stash in self.stake.tombstones]
        raisable = [index for index, earlier in enumerate(window) if earlier.slashed_ppm < raised_ppm]
        # The last one is raised below.
        if len(raisable) <= 1:
            self.raised.remove()
        if raisable:
            slash_grains = self._raise_to(window, raisable[0], raised_ppm, None)
            self.emit(SlashRaised(window[raisable[0]].stash, raised_ppm, slash_grains))
        return WEIGHTS["TrustLock.on_initialize strike"]

    # ---------------------------------------------------------------------------------------- methods for other pallets

    def locked(self, account: bytes, hold: Hold) -> int:
        """Return the account's locked money for a case."""
        return self.balances.held(account, hold)

    def lock(self, account: bytes, hold: Hold, amount: int) -> None:
        """Lock `amount` of the account's free money for a case. Raise FundsUnavailable if it has less."""
        if amount:
            self.balances.hold(account, hold, amount)
            self.emit(Locked(account, hold.reason, hold.case, amount))

    def unlock(self, account: bytes, hold: Hold, amount: int) -> None:
        """Return `amount` to its owner."""
        self.pay_out(account, hold, (Share(account, amount),))

    def rededicate(self, who: bytes, source: Hold, target: Hold, amount: int) -> None:
        """Move `amount` of a lock from the case `source` to the case `target`."""
        self.balances.rededicate(who, source, target, amount)

    def pay_out(self, account: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        """Pay the payees of `shares` out of the account's lock under `hold`."""
        locked_before = self.locked(account, hold)
        self._pay_held(account, hold, shares)
        for share in shares:
            if share.payee == account and share.amount:
                self.emit(Unlocked(account, hold.reason, hold.case, share.amount))
            elif share.amount:
                self.emit(Paid(account, hold.reason, hold.case, share.payee, share.amount))
        paid_grains = sum(share.amount for share in shares)
        assert self.locked(account, hold) == locked_before - paid_grains, "a lock falls by exactly the paid amount"

    def end(self, hold: Hold) -> None:
        """Assert that no account has locked money for an ended case."""
        self.balances.check_ended(hold)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _punish(self, offence: ProvenOffence, reporter: bytes) -> None:
        """Hold the offender's slash, schedule the raise of earlier ones, and tombstone the offender."""
        counted_epoch = self._counted_epoch(offence)
        window = [*self._window(), self._offender(offence, counted_epoch)]
        deserved_ppm = self._deserved(window)
        slash_grains = self._raise_to(window, len(window) - 1, deserved_ppm, reporter)
        # The others follow one by one in later blocks: 127 slashes in one call would take a block. Nobody is paid for
        # those: otherwise a validator with little stake would offend after another, and profit from that one's slash.
        if any(earlier.slashed_ppm < deserved_ppm for earlier in window):
            self.raised.set(deserved_ppm)
        self.stake.tombstone(offence.offender)
        self.emit(
            OffenceProven(
                offence.offender,
                offence.kind,
                offence.at,
                counted_epoch,
                deserved_ppm,
                slash_grains,
                reporter,
            )
        )

    def _counted_epoch(self, offence: ProvenOffence) -> int:
        """Return the epoch of an offence, at most the current one: the offender wrote it, and it may lie ahead."""
        return min(offence.epoch, self.beacon.epoch())

    def _offender(self, offence: ProvenOffence, counted_epoch: int) -> Offender:
        """Return the offender with its weight in the set.

        Its exposure would miss stake that left after the election and still votes.
        """
        set_members = self.stake.validators(offence.epoch)
        offender_weight = sum(seat.weight for seat in set_members if seat.stash == offence.offender)
        total_weight = sum(seat.weight for seat in set_members)
        return Offender(
            offence.offender,
            counted_epoch,
            counted_epoch // self.stake.era_epochs,
            offender_weight,
            0,
            total_weight,
        )

    def _window(self) -> list[Offender]:
        """Return the offenders whose former stake is still unlocking, without those that Root pardoned."""
        current_epoch = self.beacon.epoch()
        return [
            earlier
            for earlier in self.offenders.get()
            if earlier.epoch + self.stake.unbonding_epochs >= current_epoch and earlier.stash in self.stake.tombstones
        ]

    def _deserved(self, window: list[Offender]) -> int:
        """Return the slash of each offender of the window, in ppm of its stake. No less than a raise in progress."""
        offending_weight, total_weight = (
            sum(earlier.weight for earlier in window),
            max(earlier.total for earlier in window),
        )
        deserved_ppm = equivocation_ppm(offending_weight, total_weight, SlashCurve(self.slash_floor, self.slash_slope))
        # A raise in progress must not end below its target, even when the window shrinks meanwhile.
        return max(deserved_ppm, self.raised.get())

    def _raise_to(self, window: list[Offender], index: int, deserved_ppm: int, reporter: bytes | None) -> int:
        """Raise one offender's slash, and store the window. Return the grains that this step would take now."""
        offender = window[index]
        # Raised, not added: each loses the same part, which all of them together deserve, in any order of
        # reports.
        step = SlashStep(offender.slashed_ppm, max(deserved_ppm, offender.slashed_ppm))
        window[index] = replace(offender, slashed_ppm=step.wanted)
        self.offenders.set(tuple(window))
        return held_slashes.hold_back(self.stake, offender.stash, offender.era, step, reporter)

    def _pay_held(self, account: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        self.balances.pay_held(account, hold, [(share.payee, share.amount) for share in shares])
