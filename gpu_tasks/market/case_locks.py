"""What the market has locked of an account: a row for each reason of its pallets."""

from gpu_tasks.market.capacity.proofs import ROLL_CALL_BOND
from gpu_tasks.market.courts.cases import APPEAL_BOND, JUDGE_SEAT
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, PROVIDER_DEPOSIT
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import OFFER_DEPOSIT, SERVICE_DEPOSIT
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_CHALLENGE,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
    TaskState,
)
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.runtime import Bound
from runtime.interface.locks import HeldMoney, Lock, LockTable, LockTerms, said_alike

UNIT_RECORD = LockTerms("a deposit for the record of your unit, which is the case", "until the record is dropped")
TASK_RECORD = LockTerms("a deposit for the record of your task, which is the case", "until the record is dropped")


def _unit_deposit(bound: Bound, held: HeldMoney) -> tuple[Lock, ...]:
    """Back when the record goes: the agenda knows the block once nobody stands for the unit any more."""
    market = bound[InferenceMarket]
    unit, height = market.units[held.hold.case], market.expiring.places[held.hold.case]
    if unit is None or not height:
        keeps = (
            "" if unit is None else f", {unit.rules.keep_blocks:,} blocks after nobody stands for its result any more"
        )
        return (UNIT_RECORD.lock(held, until=UNIT_RECORD.until + keeps),)
    return (UNIT_RECORD.lock(held, until_block=height),)


def _task_deposit(bound: Bound, held: HeldMoney) -> tuple[Lock, ...]:
    """Back when the record goes: so many blocks after the task has ended."""
    task = bound[TrainingMarket].tasks[held.hold.case]
    if task is None or task.state is not TaskState.ENDED:
        keeps = "" if task is None else f", {task.windows.keep:,} blocks after the task has ended"
        return (TASK_RECORD.lock(held, until=TASK_RECORD.until + keeps),)
    return (TASK_RECORD.lock(held, until_block=task.deadline),)


_ALIKE = {
    FREE_BOND: LockTerms(
        what="the free part of a device's bond; the device is the case",
        until="until you unregister the device, which then offers nothing and has no open work",
        taken_by="nothing where it lies; of each unit that the device is drawn for, a part becomes collateral",
    ),
    COLLATERAL: LockTerms(
        what="collateral of your device for the unit that is the case",
        until="until the unit has ended, and no case about it can come any more",
        taken_by="a wrong result: all of it; none, or none in time: a part",
    ),
    PROVIDER_DEPOSIT: LockTerms(
        what="a deposit for your record as a provider",
        until="until the record is dropped: you unregister, or are expelled",
    ),
    ROLL_CALL_BOND: LockTerms(
        what="the bond of a device that answers roll calls; the device is the case",
        until="until you withdraw the device from roll calls, between two of them",
        taken_by="a roll call that the device does not answer, or answers wrongly: all of it",
    ),
    JUDGE_SEAT: LockTerms(
        what="your seat as a judge; what is judged is the case",
        until="until the case ends, an appeal included",
        taken_by="a verdict that a court finds wrong: up to all of it; silence: a judge's fee",
    ),
    APPEAL_BOND: LockTerms(
        what="the bond of your appeal; what is appealed is the case",
        until="until the court has spoken",
        taken_by="an appeal that changes nothing: up to all of it",
    ),
    LEAF_SEAT: LockTerms(
        what="your seat as the auditor of the batch that is the case",
        until="until the check of its leaves ends, the time of its customer for a dispute included",
        taken_by="a word of yours that the courts find wrong: up to all of it; silence: a fee",
    ),
    LEAF_FEE: LockTerms(
        what="what the auditor of your batch is paid, which is the case",
        until="until the check of its leaves ends",
        taken_by="the auditor, or where none looked the audit pot: all of it",
    ),
    LEAF_BOND: LockTerms(
        what="the bond of your dispute about a leaf of the batch that is the case",
        until="until the courts have spoken",
        taken_by="a leaf that they find right, and their fees: up to all of it",
    ),
    TASK_ESCROW: LockTerms(
        what="what a slot of your task may cost; the slot is the case",
        until="until the slot ends, each milestone or interval that is paid apart",
        taken_by="who works on it, as its price; the standby, judges and the audit pot: up to all of it",
    ),
    TASK_BOND: LockTerms(
        what="your bond for a slot of your task; the slot is the case",
        until="until the slot ends",
        taken_by="you, taking the task back or stopping it; an input that is not to be had: up to all of it",
    ),
    TASK_DISPUTE: LockTerms(
        what="the bond of your dispute about a slot, which is the case",
        until="until its judges have spoken, and their verdict stands",
        taken_by="a result that they find right, and their fees: up to all of it",
    ),
    BID_BOND: LockTerms(
        what="the bond of a bid, which is the case, until it is opened",
        until="until you open the bid, or its auction ends before that can be asked of you",
        taken_by="a bid that is not opened in time: all of it",
    ),
    TASK_COLLATERAL: LockTerms(
        what="what your bid stands for; the bid is the case",
        until="until another bid has won and stands by no more, or your slot ends",
        taken_by="not starting, being late, not ending, leaving, being outvoted: a part; a proven lie: all of it",
    ),
    TASK_CHALLENGE: LockTerms(
        what="the bond of your fraud proof about the task that is the case",
        until="until the proof is judged, or the task ends",
        taken_by="a proof that proves nothing, or is not opened in time: all of it",
    ),
    UNIT_MONEY: LockTerms(
        what="what your unit may cost: its price, judges, premium and your bond; the unit is the case",
        until="until the unit is settled or refunded",
        taken_by="who answers, as its price, judges and the audit pot; you, cancelling it: up to all of it",
    ),
    SERVICE_DEPOSIT: LockTerms(
        what="a deposit for your open service, whose number is the case", until="until you close the service"
    ),
    OFFER_DEPOSIT: LockTerms(
        what="a deposit for your device's offer to a service",
        until="until you take the offer back, or its service is gone",
    ),
}
MARKET_LOCKS: LockTable = {
    **{reason: said_alike(terms) for reason, terms in _ALIKE.items()},
    UNIT_DEPOSIT: _unit_deposit,
    TASK_DEPOSIT: _task_deposit,
}
"""A row for each reason of the market's pallets."""
