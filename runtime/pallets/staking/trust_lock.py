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


def _attach_weight(proofs: tuple[object, ...]) -> Weight:
    return WEIGHTS["TrustLock.attach_evidence"] + times(len(proofs), WEIGHTS["TrustLock.attach_evidence proof"])


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
        excused = [replace(past, slashed_ppm=PPM) if past.stash == offender else past for past in window]
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
        proof = known(proven(evidence, self.system.block_hash[0], self.stake.validators), NotAnOffence)
        now = self.beacon.epoch()
        epoch = self._counted_epoch(proof)
        ensure(epoch + self.stake.evidence_epochs >= now, EvidenceTooOld)
        # One slash and tombstone cover all its offences, so repeated reports must not pay again.
        ensure(not self.is_punished(proof.offender), AlreadyPunished)
        pardoned = self.stake.lifted_tombstones[proof.offender]
        ensure(pardoned is None or epoch > pardoned, AlreadyPunished)
        return proof

    def is_punished(self, offender: bytes) -> bool:
        """Return True if an offence of the validator is in the window: one punishment covers all its offences."""
        return any(past.stash == offender for past in self._window())

    def room(self) -> Weight:
        """Return the weight left for evidence in the block under construction."""
        return Weight(max(0, self.context.mandatory_left), 0)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight | None:
        """Raise the slash of one earlier offender to the current level, and take one slash that is due."""
        is_taken = held_slashes.take_due(self.stake)
        due = self.raised.get()
        if not due:
            return WEIGHTS["TrustLock.on_initialize strike"] if is_taken else None
        window = [past for past in self.offenders.get() if past.stash in self.stake.tombstones]
        behind = [place for place, past in enumerate(window) if past.slashed_ppm < due]
        # The last one is raised below.
        if len(behind) <= 1:
            self.raised.remove()
        if behind:
            amount = self._raise_to(window, behind[0], due, None)
            self.emit(SlashRaised(window[behind[0]].stash, due, amount))
        return WEIGHTS["TrustLock.on_initialize strike"]

    # ---------------------------------------------------------------------------------------- methods for other pallets

    def locked(self, who: bytes, hold: Hold) -> int:
        """Return the account's locked money for a case."""
        return self.balances.held(who, hold)

    def lock(self, who: bytes, hold: Hold, amount: int) -> None:
        """Lock `amount` of the account's free money for a case. Raise FundsUnavailable if it has less."""
        if amount:
            self.balances.hold(who, hold, amount)
            self.emit(Locked(who, hold.reason, hold.case, amount))

    def unlock(self, who: bytes, hold: Hold, amount: int) -> None:
        """Return `amount` to its owner."""
        self.pay_out(who, hold, (Share(who, amount),))

    def rededicate(self, who: bytes, source: Hold, target: Hold, amount: int) -> None:
        """Move `amount` of a lock from the case `source` to the case `target`."""
        self.balances.rededicate(who, source, target, amount)

    def pay_out(self, who: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        """Pay the payees of `shares` out of the account's lock under `hold`."""
        before = self.locked(who, hold)
        self._pay_held(who, hold, shares)
        for share in shares:
            if share.payee == who and share.amount:
                self.emit(Unlocked(who, hold.reason, hold.case, share.amount))
            elif share.amount:
                self.emit(Paid(who, hold.reason, hold.case, share.payee, share.amount))
        ended = sum(share.amount for share in shares)
        assert self.locked(who, hold) == before - ended, "a lock falls by exactly the paid amount"

    def end(self, hold: Hold) -> None:
        """Assert that no account has locked money for an ended case."""
        self.balances.check_ended(hold)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _punish(self, proof: ProvenOffence, reporter: bytes) -> None:
        """Hold the offender's slash, schedule the raise of earlier ones, and tombstone the offender."""
        epoch = self._counted_epoch(proof)
        window = [*self._window(), self._offender(proof, epoch)]
        ppm = self._deserved(window)
        amount = self._raise_to(window, len(window) - 1, ppm, reporter)
        # The others follow one by one in later blocks: 127 slashes in one call would take a block. Nobody is paid for
        # those: otherwise a validator with little stake would offend after another, and profit from that one's slash.
        if any(past.slashed_ppm < ppm for past in window):
            self.raised.set(ppm)
        self.stake.tombstone(proof.offender)
        self.emit(OffenceProven(proof.offender, proof.kind, proof.at, epoch, ppm, amount, reporter))

    def _counted_epoch(self, proof: ProvenOffence) -> int:
        """Return the epoch of an offence, at most the current one: the offender wrote it, and it may lie ahead."""
        return min(proof.epoch, self.beacon.epoch())

    def _offender(self, proof: ProvenOffence, epoch: int) -> Offender:
        """Return the offender with its weight in the set.

        Its exposure would miss stake that left after the election and still votes.
        """
        seats = self.stake.validators(proof.epoch)
        weight = sum(seat.weight for seat in seats if seat.stash == proof.offender)
        total = sum(seat.weight for seat in seats)
        return Offender(proof.offender, epoch, epoch // self.stake.era_epochs, weight, 0, total)

    def _window(self) -> list[Offender]:
        """Return the offenders whose former stake is still unlocking, without those that Root pardoned."""
        now = self.beacon.epoch()
        return [
            past
            for past in self.offenders.get()
            if past.epoch + self.stake.unbonding_epochs >= now and past.stash in self.stake.tombstones
        ]

    def _deserved(self, window: list[Offender]) -> int:
        """Return the slash of each offender of the window, in ppm of its stake. No less than a raise in progress."""
        offending, total = sum(past.weight for past in window), max(past.total for past in window)
        deserved = equivocation_ppm(offending, total, SlashCurve(self.slash_floor, self.slash_slope))
        # A raise in progress must not end below its target, even when the window shrinks meanwhile.
        return max(deserved, self.raised.get())

    def _raise_to(self, window: list[Offender], place: int, ppm: int, reporter: bytes | None) -> int:
        """Raise one offender's slash, and store the window. Return the grains that this step would take now."""
        offender = window[place]
        # Raised, not added: each loses the same part, which all of them together deserve, in any order of
        # reports.
        step = SlashStep(offender.slashed_ppm, max(ppm, offender.slashed_ppm))
        window[place] = replace(offender, slashed_ppm=step.wanted)
        self.offenders.set(tuple(window))
        return held_slashes.hold_back(self.stake, offender.stash, offender.era, step, reporter)

    def _pay_held(self, who: bytes, hold: Hold, shares: Sequence[Share]) -> None:
        self.balances.pay_held(who, hold, [(share.payee, share.amount) for share in shares])
