"""Courts and LeafDisputes: holds of judges and appellants, their duties, and the next steps."""

from typing import Any

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.courts import courts as of_the_courts
from gpu_tasks.market.courts.cases import APPEAL_BOND, JUDGE_SEAT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.hearing import COURT_WEIGHT, END_WEIGHT, LOOKS_MAX, SEAT_LOOK_WEIGHT
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.market.due import case_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes import leaf_disputes as of_disputes
from gpu_tasks.market.leaf_disputes.disputes import LeafDisputeStage
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
COMPARED = Rule("a dispute about a batch without a vote, and its next step", both_or_none)
TREES = Rule("sides that have shown nothing yet, and duties to show")
SHOWN_TREES = Rule("disputes, and trees that were shown in them", at_most)


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


def _dispute(books: Books, keys: Keys, dispute: Any, sign: int) -> None:
    unit = keys[0]
    is_due = dispute.stage is not LeafDisputeStage.JUDGED or dispute.found is not None
    assert is_due == bool(dispute.deadline)
    assert len(dispute.sides) > 1
    books[SHOWN_TREES].claim(unit, sign * CAP_GRAINS)
    if is_due:
        books[COMPARED].claim(unit, sign)
        books[BROUGHT].claim(unit, -sign)
    for who in (who for side in dispute.sides if not side.has_shown for who in side.accounts):
        books[TREES].claim((who, unit), sign)


def _check_disputed(bound: Bound) -> None:
    """Check that the unit of a disputed batch is disputed."""
    for unit in bound[LeafDisputes].disputes.keys():  # noqa: SIM118  # a storage map is no dict
        record = bound[InferenceMarket].units[unit]
        assert record is not None
        assert record.state is UnitState.DISPUTED


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

HOOKS = (
    (of_the_courts.HEIGHT_BUDGET, of_the_courts.DUE_WEIGHT + TAKE_WEIGHT),
    (of_the_courts.FINAL_BUDGET, of_the_courts.DUE_WEIGHT + TAKE_WEIGHT),
    (of_the_courts.CASES_BUDGET, COURT_WEIGHT + END_WEIGHT + times(LOOKS_MAX, SEAT_LOOK_WEIGHT)),
    (of_disputes.HEIGHT_BUDGET, of_disputes.STEP_WEIGHT + TAKE_WEIGHT),
    (of_disputes.FINAL_BUDGET, of_disputes.BEGIN_WEIGHT + TAKE_WEIGHT),
)

ARGUMENTS = {
    "case_id": lambda world, _: world.unit(),
    "statement": one_of(Statement(Unanswerable(), bytes(32)), Statement(Answered(bytes(32)), bytes(32))),
    "totals": always(Totals(2, 0, 0, bytes(32))),
    "nodes": always(()),
    "index": always(0),
}
