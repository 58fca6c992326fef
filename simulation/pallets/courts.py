"""Courts, LeafChecks and LeafDisputes: holds of judges, auditors and appellants, their duties, and the next steps."""

from typing import Any

from gpu_tasks.batches.sum_tree import LeafPath, Totals
from gpu_tasks.market.courts import courts as of_the_courts
from gpu_tasks.market.courts.cases import APPEAL_BOND, JUDGE_SEAT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.hearing import COURT_WEIGHT, END_WEIGHT, LOOKS_MAX, SEAT_LOOK_WEIGHT
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.market.due import case_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks import leaf_checks as of_checks
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT, LeafCheck, LeafDuty, LeafStage
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.storage import seat_of
from gpu_tasks.market.leaf_disputes import leaf_disputes as of_disputes
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.runtime import Bound
from runtime.frame.schedule import TAKE_WEIGHT
from simulation.actors import always, one_of
from simulation.books import BROUGHT, Books, Keys, PalletBooks, Rule, at_most, both_or_none, claims, counts, places

JUDGED = Rule("a case, and its next step", both_or_none)
SEATED = Rule("members of a bench, and their seats")
PRICES = Rule("price of a case, and that of its terms")
CHECKED = Rule("a check of a batch outside a court, and its next step", both_or_none)
CHECK_CASES = Rule("cases of checks, and the units that they are listed with")
OWED = Rule("duties of a check, and those of its stage")
COMPARED = Rule("a dispute about a batch outside a court, and its next step", both_or_none)
TREES = Rule("sides that have shown nothing yet, and duties to show")
SHOWN_TREES = Rule("disputes, and trees that were shown in them", at_most)
OF_COURTS = (LeafStage.PROVING, LeafStage.DOUBTED)


def _case(books: Books, keys: Keys, case: Any, sign: int) -> None:
    case_id = keys[0]
    if case.appeal:
        books.case(case.appeal.appellant, Hold(APPEAL_BOND, case_id), sign * case.appeal.bond)
    books[JUDGED].claim(case_id, sign)
    if case.handler in books.indices:
        books[BROUGHT].count(case_id, sign)
    books[PRICES].count(case_id, sign * case.terms.price)
    for judge in (judge for bench in case.benches for judge in bench.members):
        books[SEATED].claim((judge, case_id), sign)


def _seat(books: Books, keys: Keys, seat: Any, sign: int) -> None:
    books.case(keys[0], Hold(JUDGE_SEAT, keys[1]), sign * seat.held)
    books[SEATED].count(keys, sign)


def _check(books: Books, keys: Keys, check: Any, sign: int) -> None:
    unit, terms = keys[0], check.terms
    books.case(terms.customer, Hold(LEAF_FEE, unit), sign * terms.fee)
    for who in check.silent:
        books.case(who, Hold(LEAF_SEAT, unit), sign * terms.fee)
    if check.auditor is not None:
        books.case(check.auditor, Hold(LEAF_SEAT, unit), sign * seat_of(terms))
    if check.doubt is not None and check.doubt.doubter == terms.customer:
        books.case(terms.customer, Hold(LEAF_BOND, unit), sign * dispute_bond(terms.judge_fee))
    assert (check.case is not None) == (check.stage in OF_COURTS)
    books[BROUGHT].claim(unit, -sign)
    if check.case is None:
        books[CHECKED].claim(unit, sign)
    else:
        books[BROUGHT].claim(check.case, sign)
        books[CHECK_CASES].claim((check.case, unit), sign)
    for who, duty in _owes(check).items():
        books[OWED].claim((who, unit, duty), sign)


def _owes(check: LeafCheck) -> dict[bytes, LeafDuty]:
    answerers = [each.account for each in check.terms.answerers]
    auditor = [] if check.auditor is None else [check.auditor]
    if check.stage is LeafStage.SHOWING and not check.shown:
        return dict.fromkeys(answerers, LeafDuty.SHOW)
    if check.stage is LeafStage.CHECKING:
        return dict.fromkeys(auditor, LeafDuty.AUDIT)
    if check.stage is LeafStage.DOUBTED:
        return dict.fromkeys([*answerers, *auditor], LeafDuty.STAND)
    return dict.fromkeys(auditor, LeafDuty.STAND) if check.stage is LeafStage.PROVING else {}


def _dispute(books: Books, keys: Keys, dispute: Any, sign: int) -> None:
    unit = keys[0]
    is_due = dispute.stage is not DisputeStage.JUDGED or dispute.found is not None
    assert is_due == bool(dispute.deadline)
    assert len(dispute.sides) > 1
    books[SHOWN_TREES].claim(unit, sign * CAP_GRAINS)
    if is_due:
        books[COMPARED].claim(unit, sign)
        books[BROUGHT].claim(unit, -sign)
    for who in (who for side in dispute.sides if not side.has_shown for who in side.accounts):
        books[TREES].claim((who, unit), sign)


def _check_stages(bound: Bound) -> None:
    """Check that a leaf check waits for a height or finality, by its stage, with its batch settled and watched."""
    room = bound[LeafChecks]
    for unit, check in room.checks.items():
        assert check is not None
        awaits_finality = bool(room.final_agenda.places[unit])
        is_shown_now = awaits_finality and check.stage is LeafStage.SHOWING and not check.shown
        assert awaits_finality == (check.stage is LeafStage.AWAITED or is_shown_now)
        is_due = bool(room.agenda.places[unit]) or is_shown_now
        assert is_due == (check.stage not in (*OF_COURTS, LeafStage.AWAITED))
        record = bound[InferenceMarket].units[unit]
        assert record is not None
        assert record.is_watched
        assert record.leaf_audit_ppm
        assert check.case is None or check.case in bound[Courts].cases


def _check_disputed(bound: Bound) -> None:
    """Check that a disputed batch is being judged."""
    for unit in bound[LeafDisputes].disputes.keys():  # noqa: SIM118  # a storage map is no dict
        record = bound[InferenceMarket].units[unit]
        assert record is not None
        assert record.state is UnitState.JUDGING
        assert record.leaf_audit_ppm


WORLDS = (
    PalletBooks(
        Courts,
        (
            (Courts.cases, _case),
            (Courts.seats, _seat),
            (Courts.prices, claims(PRICES)),
            (Courts.due, counts(JUDGED, lambda keys: case_of(keys[0]))),
            (Courts.agenda.places, places(JUDGED)),
            (Courts.final_agenda.places, places(JUDGED)),
        ),
    ),
    PalletBooks(
        LeafChecks,
        (
            (LeafChecks.checks, _check),
            (LeafChecks.unit_of_case, lambda books, keys, unit, sign: books[CHECK_CASES].count((keys[0], unit), sign)),
            (LeafChecks.duties, lambda books, keys, duty, sign: books[OWED].count((*keys, duty), sign)),
            (LeafChecks.agenda.places, places(CHECKED)),
            (LeafChecks.final_agenda.places, places(CHECKED)),
        ),
        _check_stages,
    ),
    PalletBooks(
        LeafDisputes,
        (
            (LeafDisputes.disputes, _dispute),
            (LeafDisputes.duties, counts(TREES, lambda keys: keys)),
            (LeafDisputes.subtrees, counts(SHOWN_TREES, lambda keys: keys[0])),
            (LeafDisputes.leaves, counts(SHOWN_TREES, lambda keys: keys[0])),
            (LeafDisputes.agenda.places, places(COMPARED)),
            (LeafDisputes.final_agenda.places, places(COMPARED)),
        ),
        _check_disputed,
    ),
)

_CHECK_ENDED = of_checks.END_WEIGHT + of_checks.STEP_WEIGHT + TAKE_WEIGHT
HOOKS = (
    (of_the_courts.HEIGHT_BUDGET, of_the_courts.DUE_WEIGHT + TAKE_WEIGHT),
    (of_the_courts.FINAL_BUDGET, of_the_courts.DUE_WEIGHT + TAKE_WEIGHT),
    (of_the_courts.CASES_BUDGET, COURT_WEIGHT + END_WEIGHT + times(LOOKS_MAX, SEAT_LOOK_WEIGHT)),
    (of_checks.HEIGHT_BUDGET, _CHECK_ENDED),
    (of_checks.FINAL_BUDGET, _CHECK_ENDED),
    (of_disputes.HEIGHT_BUDGET, of_disputes.STEP_WEIGHT + TAKE_WEIGHT),
    (of_disputes.FINAL_BUDGET, of_disputes.BEGIN_WEIGHT + TAKE_WEIGHT),
)

ARGUMENTS = {
    "case_id": lambda world, _: world.unit(),
    "statement": one_of(Statement(Unanswerable(), bytes(32)), Statement(Answered(bytes(32)), bytes(32))),
    "totals": always(Totals(2, 0, 0, bytes(32))),
    "path": always(LeafPath(0, 0, 0, bytes(32), ())),
    "paths": always(()),
    "nodes": always(()),
    "index": always(0),
}
