"""A check from the settlement of its batch to its end: leaves drawn, shown, computed by an auditor, disputed.

Invariants: the drawn leaves are unknown before the batch is settled. An answerer shows them, or all answerers lose.
Auditors are drawn one after another until one gives a valid answer. Then the customer has a window to dispute.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.batches.leaf_draws import covers, drawn_points, leaves_to_check, weight_floor
from gpu_tasks.batches.sum_tree import LeafPath, Totals, batch_root, holds, path_claim
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.leaf_checks import cases, ending
from gpu_tasks.market.leaf_checks.checks import (
    AUDITORS_MAX,
    LEAF_BOND,
    LEAF_SEAT,
    CheckTerms,
    LeafCheck,
    LeafDoubt,
    LeafDuty,
    LeafStage,
    ShownLeaf,
)
from gpu_tasks.market.leaf_checks.events import (
    AuditorDrawn,
    AuditorSilent,
    CheckWindowClosed,
    LeavesDrawn,
    LeavesPassed,
    LeavesShown,
    NotAnswerer,
    NotAuditor,
    NotBatchCustomer,
    NothingDoubted,
    WrongLeaves,
)
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.storage import LeafStorage, seat_of
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure


def begin(room: LeafStorage, unit: bytes, terms: CheckTerms) -> None:
    """Open the check of a settled batch. A beacon that is still unknown draws its leaves."""
    assert unit not in room.checks, "a batch is settled once"
    room.checks[unit] = LeafCheck(terms, room.windows_for(terms.run_blocks), recorded_at=room.height)
    room.final_agenda.put(room.height + BEACON_DELAY, unit)


def step(room: LeafStorage, unit: bytes, check: LeafCheck) -> int:
    """Do what is due, and return the number of checked validators."""
    if check.stage is LeafStage.AWAITED:
        return _draw(room, unit, check)
    if check.stage is LeafStage.SHOWING and check.shown:
        _ask(room, unit, check)
        return 0
    assert room.height > check.deadline, "a check is processed when its window is over"
    if check.stage is LeafStage.SHOWING:
        if not room.awaits_finality(unit):
            ending.withhold(room, unit, check)
    elif check.stage is LeafStage.CHECKING:
        _ask(room, unit, _without_silent(room, unit, check))
    elif check.stage is LeafStage.OPEN:
        cases.conclude(room, unit, check)
    return 0


def begin_window(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """Begin the window to show leaves, now that their draw is final: at least half a window is left.

    Daemons act on final blocks, so an attacker that stops finality could make all answerers lose.
    """
    room.put(unit, replace(check, deadline=max(check.deadline, room.height + check.windows.show // 2)))


def show(
    room: LeafStorage, unit: bytes, check: LeafCheck, who: bytes, totals: Totals, paths: Sequence[LeafPath]
) -> None:
    """Show the leaf of each point as one of the answerers. The next block's hook asks an auditor."""
    terms = check.terms
    ensure(any(each.account == who for each in terms.answerers), NotAnswerer)
    is_open = room.height <= check.deadline or room.awaits_finality(unit)
    ensure(check.stage is LeafStage.SHOWING and not check.shown and is_open, CheckWindowClosed)
    ensure(batch_root(totals) == terms.output_root and totals.requests == terms.requests, WrongLeaves)
    assert check.seed is not None, "the shown leaves are drawn"
    floor = weight_floor(terms.allowed, terms.requests)
    points = drawn_points(check.seed, unit, totals, floor, input_share=terms.input_share)
    ensure(len(paths) == len(points), WrongLeaves)
    for path, point in zip(paths, points, strict=True):
        ensure(covers(totals, floor, path, point, input_share=terms.input_share), WrongLeaves)
    shown = dict.fromkeys(ShownLeaf(path.index, path_claim(path)) for path in paths)
    for each in terms.answerers:
        del room.duties[each.account, unit]
    room.emit(LeavesShown(unit, who, len(shown)))
    # Otherwise `begin_window` would move the deadline of a check with shown leaves.
    room.final_agenda.drop(unit)
    room.put(unit, replace(check, shown=tuple(shown), deadline=room.height))


def pass_leaves(room: LeafStorage, handler: int, unit: bytes, check: LeafCheck, who: bytes, proof: bytes) -> None:
    """Record the auditor's pass."""
    _ensure_audits(room, check, who)
    del room.duties[who, unit]
    room.emit(LeavesPassed(unit, who, proof))
    cases.watch(room, handler, unit, check, who, proof)


def doubt(room: LeafStorage, handler: int, unit: bytes, check: LeafCheck, who: bytes, index: int, found: bytes) -> None:
    """Record the auditor's doubt about a leaf."""
    _ensure_audits(room, check, who)
    shown = next((leaf for leaf in check.shown if leaf.index == index), None)
    ensure(shown is not None and shown.claim != found, NothingDoubted)
    assert shown is not None, "checked above"
    del room.duties[who, unit]
    cases.doubt(room, handler, unit, check, LeafDoubt(who, shown, found), seat_of(check.terms))


def dispute(
    room: LeafStorage,
    handler: int,
    unit: bytes,
    check: LeafCheck,
    who: bytes,
    totals: Totals,
    path: LeafPath,
    found: bytes,
) -> None:
    """Record the customer's dispute of any leaf, with a bond that pays the judges if the leaf is right."""
    terms = check.terms
    ensure(who == terms.customer, NotBatchCustomer)
    ensure(check.stage is LeafStage.OPEN and room.height <= check.deadline, CheckWindowClosed)
    ensure(batch_root(totals) == terms.output_root and holds(totals, path), WrongLeaves)
    shown = ShownLeaf(path.index, path_claim(path))
    ensure(shown.claim != found, NothingDoubted)
    bond = dispute_bond(terms.judge_fee)
    room.lock.lock(who, Hold(LEAF_BOND, unit), bond)
    cases.doubt(room, handler, unit, check, LeafDoubt(who, shown, found), bond)


def _draw(room: LeafStorage, unit: bytes, check: LeafCheck) -> int:
    """Draw the leaves and the possible auditors, or record the check again if the beacon no longer remembers."""
    seed = room.beacon.value_at(check.recorded_at + BEACON_DELAY)
    if seed is None:
        room.checks[unit] = replace(check, recorded_at=room.height)
        room.final_agenda.put(room.height + BEACON_DELAY, unit)
        return 0
    until = room.height + check.windows.show
    for each in check.terms.answerers:
        room.duties[each.account, unit] = LeafDuty.SHOW
    room.emit(LeavesDrawn(unit, leaves_to_check(check.terms.requests), seed, until))
    called, looks = room.call_auditors(unit, check.terms, seed)
    room.put(unit, replace(check, stage=LeafStage.SHOWING, seed=seed, deadline=until, called=called))
    room.final_agenda.put(room.height, unit)
    return looks


def _ask(room: LeafStorage, unit: bytes, check: LeafCheck) -> None:
    """Ask the next auditor. If there is none, open the customer's window."""
    auditor = room.next_auditor(check) if len(check.drawn) < AUDITORS_MAX else None
    height, windows = room.height, check.windows
    if auditor is None:
        room.put(unit, replace(check, stage=LeafStage.OPEN, deadline=height + windows.dispute))
        return
    seat, until = seat_of(check.terms), height + windows.check
    room.lock.lock(auditor, Hold(LEAF_SEAT, unit), seat)
    room.duties[auditor, unit] = LeafDuty.AUDIT
    room.emit(AuditorDrawn(unit, auditor, seat, until))
    drawn = (*check.drawn, auditor)
    room.put(unit, replace(check, stage=LeafStage.CHECKING, auditor=auditor, drawn=drawn, deadline=until))


def _without_silent(room: LeafStorage, unit: bytes, check: LeafCheck) -> LeafCheck:
    """Return the check without its silent auditor, if there is one. A fee of its seat stays held."""
    if check.auditor is None:
        return check
    # If a later auditor is right, the input was available, and this fee burns.
    ending.release_auditor(room, unit, check.auditor, but=check.terms.fee)
    del room.duties[check.auditor, unit]
    room.emit(AuditorSilent(unit, check.auditor))
    return replace(check, auditor=None, silent=(*check.silent, check.auditor))


def _ensure_audits(room: LeafStorage, check: LeafCheck, who: bytes) -> None:
    """Raise NotAuditor or CheckWindowClosed unless the account's stash audits now."""
    ensure(check.auditor is not None and who == check.auditor, NotAuditor)
    ensure(check.stage is LeafStage.CHECKING and room.height <= check.deadline, CheckWindowClosed)
