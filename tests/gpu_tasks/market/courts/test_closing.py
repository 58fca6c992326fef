"""The effect of opinions: confirmation of a settlement, convictions by a court, and expulsions."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseKind, CaseStage, CourtCase
from gpu_tasks.market.courts.closing import EXPELLING_COURT_MIN
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.courts.storage import CourtsStorage

SETTLED, OTHER = Answered(b"s" * 32), Answered(b"x" * 32)
STAKES = {"a": 40, "b": 30, "c": 20, "d": 10}


def is_borne_out(said: dict[str, Answered | None], votes: dict[str, int], pair: str = "") -> bool:
    """Return whether these opinions confirm the settlement. Judges of the `pair` are not in the court."""
    seats = [
        (
            name.encode(),
            SimpleNamespace(
                bench=BenchKind.PAIR if name in pair else BenchKind.COURT,
                statement=None if opinion is None else SimpleNamespace(opinion=opinion),
                votes=votes.get(name, 1),
            ),
        )
        for name, opinion in said.items()
    ]
    entrants = [(name.encode(), stake) for name, stake in STAKES.items()]
    courts = cast(CourtsStorage, SimpleNamespace(entrants=lambda: entrants))
    case = cast(CourtCase, SimpleNamespace(settled=SETTLED.root))
    return closing._is_borne_out(courts, case, cast(Any, seats))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"a": SETTLED, "b": OTHER, "c": None, "d": None}, True),
        ({"a": OTHER, "b": SETTLED, "c": SETTLED, "d": None}, True),
        ({"a": None, "b": SETTLED, "c": None, "d": None}, False),  # a third may be one coalition
        ({"a": SETTLED, "b": OTHER, "c": OTHER, "d": None}, False),
        ({"a": SETTLED, "b": OTHER, "c": None, "d": OTHER}, False),  # a half is not most
        ({"a": None, "b": None, "c": None, "d": None}, False),
    ],
)
def test_where_all_have_sat_it_is_more_than_a_third_of_all_and_most_of_who_spoke(
    said: dict[str, Answered | None], expected: bool
) -> None:
    for votes in ({"a": 4, "b": 3, "c": 2, "d": 1}, {"a": 2}):  # who has one vote is beside who has more
        assert is_borne_out(said, votes) is expected


def test_earlier_judges_count_where_all_have_sat() -> None:
    assert is_borne_out({"a": SETTLED, "b": OTHER, "c": SETTLED}, {"b": 3}, pair="a")
    assert not is_borne_out({"a": OTHER, "b": SETTLED, "c": OTHER}, {"b": 3}, pair="a")


def test_of_a_court_that_was_drawn_each_member_is_one_vote() -> None:
    assert is_borne_out({"a": OTHER, "b": SETTLED, "c": SETTLED}, {})
    assert not is_borne_out({"a": SETTLED, "b": OTHER, "c": OTHER}, {})
    assert not is_borne_out({"a": SETTLED, "b": OTHER}, {}, pair="ab"), "no court has sat"


@pytest.mark.parametrize(
    ("first", "decided", "outcome", "verdict"),
    [
        (OTHER, None, CaseOutcome.AUDIT_RIGHT, SETTLED),
        (None, None, CaseOutcome.AUDIT_RIGHT, SETTLED),
        (SETTLED, None, CaseOutcome.APPEAL_UNDECIDED, SETTLED),  # it already applies, and its appellant pays
        (OTHER, OTHER, CaseOutcome.APPEAL_LOST, OTHER),  # a court that decides is believed
    ],
)
def test_what_is_borne_out_stands_where_a_court_does_not_decide(
    first: Answered | None, decided: Answered | None, outcome: CaseOutcome, verdict: Answered
) -> None:
    case: Any = SimpleNamespace(
        stage=CaseStage.COURT, kind=CaseKind.AUDIT, settled=SETTLED.root, verdict=first, appeal=object()
    )
    assert closing.outcome_of(case, decided, is_heard=True, is_borne_out=True) == (outcome, verdict)


@pytest.mark.parametrize(("votes", "is_convicted"), [((5, 1, 1), True), ((1, 1, 1), False)])
def test_a_probe_is_doubted_by_the_votes_of_a_court(votes: tuple[int, ...], is_convicted: bool) -> None:
    """If all who are left judge, they vote by their stake, about probes too."""
    earlier = SimpleNamespace(
        bench=BenchKind.PAIR, statement=SimpleNamespace(opinion=SETTLED, doubted=0), votes=1, held=50
    )
    court = [
        SimpleNamespace(bench=BenchKind.COURT, statement=SimpleNamespace(opinion=SETTLED, doubted=doubted), votes=count)
        for doubted, count in zip((1, 0, 0), votes, strict=True)
    ]
    seats: Any = [(b"judge", earlier), *((bytes((place,)), seat) for place, seat in enumerate(court))]
    assert closing._convicted(seats, SETTLED) == (((b"judge", 50),) if is_convicted else ())


@pytest.mark.parametrize(
    ("right", "takes_whole"),
    [
        ("b", False),  # three tenths of all may be one coalition
        ("cd", False),
        ("a", True),
        ("bd", True),
        ("", False),
    ],
)
def test_where_all_have_sat_a_liar_pays_whole_what_more_than_a_third_say(right: str, *, takes_whole: bool) -> None:
    seats: Any = [
        (
            name.encode(),
            SimpleNamespace(
                bench=BenchKind.COURT,
                statement=SimpleNamespace(opinion=OTHER if name in right else SETTLED, doubted=None),
                votes=stake // 10,
                held=1,
            ),
        )
        for name, stake in STAKES.items()
    ]
    courts: Any = SimpleNamespace(
        entrants=lambda: [(name.encode(), stake) for name, stake in STAKES.items()],
        balances=SimpleNamespace(free_balance=lambda _: 0, existential_deposit=0),
    )
    terms = SimpleNamespace(
        pot_max=0, customer=b"customer", customer_bond=0, customer_price=0, customer_spare=0, claims=(), price=1
    )
    case: Any = SimpleNamespace(terms=terms, fee=1, settled=SETTLED.root, appeal=None, has_court=True)
    assert closing._money(courts, case, seats, None, OTHER).takes_whole is takes_whole


@pytest.mark.parametrize(("spoken", "is_expelling"), [(EXPELLING_COURT_MIN, True), (EXPELLING_COURT_MIN - 1, False)])
def test_a_court_of_five_who_speak_ends_a_registration(spoken: int, is_expelling: bool) -> None:
    seats: Any = [
        (bytes((place,)), SimpleNamespace(bench=BenchKind.COURT, statement=object() if place < spoken else None))
        for place in range(9)
    ]
    case: Any = SimpleNamespace(stage=CaseStage.COURT)
    assert closing._is_expelling(case, seats, OTHER) is is_expelling
    assert not closing._is_expelling(case, seats, None), "it has decided nothing"
