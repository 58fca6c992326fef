"""The books of the courts, counted independently of the pallet: what judges and appellants hold, what is awaited."""

from collections import Counter

from gpu_tasks.market.courts.cases import APPEAL_BOND, JUDGE_SEAT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.due import case_of
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound


def court_holds(bound: Bound) -> Counter[tuple[bytes, Hold]]:
    """What each account should hold for each case; every case ends by itself, and nothing else is on an agenda."""
    courts = bound[Courts]
    due = {case_of(key) for key, _ in courts.due.items()}
    expected: Counter[tuple[bytes, Hold]] = Counter()
    for (judge, case_id), seat in courts.seats.items():
        assert seat is not None
        expected[judge, Hold(JUDGE_SEAT, case_id)] += seat.held
    seated = {(judge, case_id) for (judge, case_id), _ in courts.seats.items()}
    members = set()
    for case_id, case in courts.cases.items():
        assert case is not None
        members |= {(judge, case_id) for bench in case.benches for judge in bench.members}
        if case.appeal:
            expected[case.appeal.appellant, Hold(APPEAL_BOND, case_id)] += case.appeal.bond
        is_awaited = courts.heights.places[case_id] or courts.finals.places[case_id] or case_id in due
        assert is_awaited, "every case ends by itself"
        assert courts.prices[case_id] == case.terms.price
    assert seated == members
    waiting = {case_id for case_id, _ in (*courts.heights.places.items(), *courts.finals.places.items())}
    assert waiting | due == {case_id for case_id, _ in courts.cases.items()} == set(courts.prices.keys())
    return expected
