"""The books of checks of batches, counted independently of the pallet: what is held, awaited and owed."""

from collections import Counter

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT, LeafCheck, LeafDuty, LeafStage
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.ground import seat_of
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound

JUDGED = (LeafStage.PROVING, LeafStage.DOUBTED)


def leaf_holds(bound: Bound) -> Counter[tuple[bytes, Hold]]:
    """What each account should hold for each check; every check ends by itself, and owes what its stage says."""
    room = bound[LeafChecks]
    expected: Counter[tuple[bytes, Hold]] = Counter()
    owed: dict[tuple[bytes, bytes], LeafDuty] = {}
    for unit, check in room.checks.items():
        assert check is not None
        expected += _held(unit, check)
        owed |= {(who, unit): duty for who, duty in _owes(check).items()}
        assert (check.case is not None) == (check.stage in JUDGED)
        awaits_finality, is_shown_now = (
            bool(room.finals.places[unit]),
            check.stage is LeafStage.SHOWING and not check.shown,
        )
        assert awaits_finality == (check.stage is LeafStage.AWAITED) or (awaits_finality and is_shown_now)
        is_due = bool(room.heights.places[unit]) or (awaits_finality and is_shown_now)
        assert is_due == (check.stage not in (*JUDGED, LeafStage.AWAITED))
        record = bound[InferenceMarket].units[unit]
        assert record is not None
        assert record.is_watched
        assert record.leaf_audit_ppm
    assert owed == dict(room.duties.items())
    waiting = {unit for unit, _ in (*room.heights.places.items(), *room.finals.places.items())}
    assert waiting <= {unit for unit, _ in room.checks.items()}
    return expected


def leaf_cases(bound: Bound) -> tuple[set[bytes], set[bytes]]:
    """The batches that are checked, and the cases of their checks; each of these is before the courts."""
    room = bound[LeafChecks]
    checks = {unit: check for unit, check in room.checks.items() if check is not None}
    cases = {check.case: unit for unit, check in checks.items() if check.case is not None}
    assert cases == dict(room.unit_of_case.items())
    assert all(case in bound[Courts].cases for case in cases)
    return set(checks), set(cases)


def units_compared(bound: Bound) -> set[bytes]:
    """The batches whose racers show their trees, or go on after a verdict, so that no court has their cases."""
    room = bound[LeafDisputes]
    compared: set[bytes] = set()
    owed: set[tuple[bytes, bytes]] = set()
    for unit, dispute in room.disputes.items():
        assert dispute is not None
        record = bound[InferenceMarket].units[unit]
        assert record is not None
        assert record.state is UnitState.JUDGING
        assert record.leaf_audit_ppm
        assert len(dispute.sides) > 1
        is_judged = dispute.stage is DisputeStage.JUDGED
        is_due = not is_judged or dispute.found is not None
        assert is_due == bool(dispute.deadline) == bool(room.heights.places[unit] or room.finals.places[unit])
        compared |= {unit} if is_due else set()
        silent = [side for side in dispute.sides if not side.has_shown]
        owed |= {(who, unit) for side in silent for who in side.accounts}
    assert owed == {keys for keys, _ in room.duties.items()}
    shown = {unit for (unit, _), _ in (*room.subtrees.items(), *room.leaves.items())}
    assert shown <= {unit for unit, _ in room.disputes.items()}
    assert {unit for unit, _ in (*room.heights.places.items(), *room.finals.places.items())} == compared
    return compared


def _held(unit: bytes, check: LeafCheck) -> Counter[tuple[bytes, Hold]]:
    terms = check.terms
    held = Counter({(terms.customer, Hold(LEAF_FEE, unit)): terms.fee})
    if check.auditor is not None:
        held[check.auditor, Hold(LEAF_SEAT, unit)] += seat_of(terms)
    for who in check.silent:
        held[who, Hold(LEAF_SEAT, unit)] += terms.fee
    if check.doubt is not None and check.doubt.doubter == terms.customer:
        held[terms.customer, Hold(LEAF_BOND, unit)] += dispute_bond(terms.judge_fee)
    return held


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
