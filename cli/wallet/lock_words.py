"""The wallet's words for locked money: its purpose, its end, its risks. A row for each reason to hold money.

A test names a reason of the chain's list that has no row.
"""

from dataclasses import dataclass

from gpu_tasks.market.budgets.records import BUDGET_DEPOSIT
from gpu_tasks.market.capacity.proofs import ROLL_CALL_BOND
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND
from gpu_tasks.market.claims.disputes import VOTER_BOND
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, PROVIDER_DEPOSIT
from gpu_tasks.market.inference.services import OFFER_DEPOSIT, SERVICE_DEPOSIT
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY
from gpu_tasks.market.sessions.records import SESSION_DEPOSIT, SESSION_MONEY
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_ESCROW,
)
from runtime.interface.locks_api import Lock, LockPart, SlashWait
from runtime.pallets.staking.stakers import PROFILE

NOTHING_TAKES_IT = "nothing: all of it comes back"


@dataclass(frozen=True, slots=True)
class LockWords:
    """The words for money that is held for one reason."""

    what: str
    until: str
    """The event that ends its case."""
    taken_by: str = NOTHING_TAKES_IT
    stays: str = ""
    """The event from which it stays so many blocks more, where the chain has no block yet."""


_OFFENCE = "two proven blocks of {whose} in one slot: a part that grows with all who offend, up to all of it"
STAKE_WORDS = {
    LockPart.BOND: LockWords(
        what="your own bond as a validator",
        until="until you unbond it",
        taken_by=_OFFENCE.format(whose="yours"),
    ),
    LockPart.DELEGATION: LockWords(
        what="delegated behind the validator that is the case",
        until="until you undelegate it",
        taken_by=_OFFENCE.format(whose="the validator")
        + "; for a time after a redelegation, also by an offence of the earlier validator",
    ),
    LockPart.LEAVING: LockWords(
        what="stake on its way out from behind the validator that is the case",
        until="until you withdraw it, from that epoch on",
        taken_by="an offence of the validator while it still stood there, proven before it is free: up to all of it",
    ),
    LockPart.POOLED: LockWords(
        what="what others delegated behind the validator that is the case, kept by the chain",
        until="until they undelegate it",
        taken_by=_OFFENCE.format(whose="the validator"),
    ),
}
KEPT_BY = {
    SlashWait.NONE: "",
    SlashWait.UNDECIDED: "; not before the slash that waits is taken or cancelled",
    SlashWait.RAISABLE: "; not before nobody can raise the slash any more that it bore",
}
WORDS = {
    FREE_BOND: LockWords(
        what="the free part of a device's bond; the device is the case",
        until="until you unregister the device, which then offers nothing and has no open work",
        taken_by="nothing where it lies; of each unit that the device is drawn for, a part becomes collateral",
    ),
    COLLATERAL: LockWords(
        what="collateral of your device for the unit or the session that is the case",
        until="until another racer claims its pay, or the claims of your results end",
        taken_by="a wrong result, or one that you do not deliver: all of it; none, or none in time: a part",
    ),
    PROVIDER_DEPOSIT: LockWords(
        what="a deposit for your record as a provider",
        until="until the record is dropped: you unregister, or anybody removes it after you have left",
    ),
    ROLL_CALL_BOND: LockWords(
        what="the collateral of a device's proof at a roll call, and the fees of its checks; the claim is the case",
        until="until the claim ends",
        taken_by="checks: a fee each; a false row, or one that you do not deliver: all of it but two fees",
    ),
    CHECKER_BOND: LockWords(
        what="your collateral as a checker; the claim is the case",
        until="until the claim ends",
        taken_by="a false finding, or one that you do not open: all of it; silence: a fee; a concession: two fees",
    ),
    DISPUTE_BOND: LockWords(
        what="the bond of your dispute of a claim; the dispute is the case",
        until="until validators have voted",
        taken_by="an item that they find right: all of it, and their fees",
    ),
    VOTER_BOND: LockWords(
        what="two fees of yours as a voter; the dispute is the case",
        until="until the dispute ends, an appeal included",
        taken_by="another vote than the decision: all of it; silence: one fee",
    ),
    TASK_ESCROW: LockWords(
        what="the greatest cost of a slot of your task; the slot is the case",
        until="until the slot ends, each milestone or interval that is paid apart",
        taken_by="who works on it, as its price; the standby and checkers: up to all of it",
    ),
    TASK_BOND: LockWords(
        what="your bond for a slot of your task; the slot is the case",
        until="until the slot ends",
        taken_by="you, taking the task back or stopping it; voters about an input that is missing: up to all of it",
    ),
    BID_BOND: LockWords(
        what="the bond of a bid, which is the case, until it is opened",
        until="until you open the bid, or its auction ends before that can be asked of you",
        taken_by="a bid that is not opened in time: all of it",
    ),
    TASK_COLLATERAL: LockWords(
        what="the collateral of your bid; the bid is the case",
        until="until another bid has won and stands by no more, or your slot ends",
        taken_by="not starting, being late, not ending, leaving: a part; a lie, an outvoted replica: all of it",
    ),
    UNIT_MONEY: LockWords(
        what="the greatest cost of your unit: its price, witness, checks and your bond; the unit is the case",
        until="until the unit is settled or refunded",
        taken_by="its racers and checkers, as their pay; an input that cannot be opened, or you, cancelling it: a part",
    ),
    SESSION_MONEY: LockWords(
        what="the rest of your session's deposit; the session is the case",
        until="until the session ends: it is closed or its term is over, and its claims have ended",
        taken_by="its providers and checkers, as their pay: up to all of it",
    ),
    SESSION_DEPOSIT: LockWords(
        what="a deposit for the record of your session, which is the case", until="until the session ends"
    ),
    BUDGET_DEPOSIT: LockWords(
        what="deposits for the records of your budget, which is the case, and of its delegates",
        until="until you revoke each delegate and close the budget",
    ),
    SERVICE_DEPOSIT: LockWords(
        what="a deposit for your open service; its number is the case", until="until you close the service"
    ),
    OFFER_DEPOSIT: LockWords(
        what="a deposit for your device's offer to a service",
        until="until you take the offer back, or its service is gone",
    ),
    UNIT_DEPOSIT: LockWords(
        what="a deposit for the record of your unit, which is the case",
        until="until the record is dropped",
        stays="nobody stands for its result any more",
    ),
    TASK_DEPOSIT: LockWords(
        what="a deposit for the record of your task, which is the case",
        until="until the record is dropped",
        stays="the task has ended",
    ),
    PROFILE: LockWords(
        what="a deposit for your name and web address as a validator", until="until you set both to nothing"
    ),
}
"""A row for each reason to hold money but stakes: a reason that has no parts."""


def words_of(lock: Lock) -> LockWords:
    """Return the row of a lock's reason; of a stake, the row of its part."""
    return WORDS[lock.reason] if lock.part is LockPart.WHOLE else STAKE_WORDS[lock.part]


def end_of(lock: Lock) -> str:
    """Return the event that frees a lock."""
    lock_words = words_of(lock)
    later = ""
    if lock.stays_epochs:
        later = f", and {lock.stays_epochs:,} epochs after that"
    elif lock.stays_blocks:
        later = f", {lock.stays_blocks:,} blocks after {lock_words.stays}"
    return lock_words.until + later + KEPT_BY[lock.kept_by]
