"""Audits: the beacon chooses, a pair checks, a fresh committee decides."""

import pytest

from court_habits import FEE, INPUT_BAD, LIES, SILENT, appealed, audited, by_bench, first_lies, gains, judges
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import AUDIT_POT, CaseKind, ClaimKind, CourtCase, PartyClaim, judges_of
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import BenchDrawn, CaseOpened, CourtCalled
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from runtime.pallets.balances import Balances
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Policy, Says, Toys
from simulation.chains.market_chain import CUSTOMER, Keys


def test_what_the_beacon_does_not_pick_moves_nothing() -> None:
    stage = CourtChain(constants={"Courts.audit_rate_ppm": 10_000})
    case_id = stage.audit()
    assert gains(stage, lambda: stage.run(case_id)) == {}
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.NOT_AUDITED
    assert not stage.chain.happened(CaseOpened)


def test_a_right_result_costs_its_audit_out_of_the_pot() -> None:
    stage, case_id = audited()
    pot = stage.pot
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.AUDIT_RIGHT
    assert moved == dict.fromkeys(judges(stage, BenchKind.PAIR), FEE)
    assert stage.pot == pot - 2 * FEE


def test_a_pot_that_is_nearly_empty_pays_what_it_has() -> None:
    stage, case_id = audited()
    deposit = stage.chain.now()[Balances].existential_deposit
    left = FEE + deposit // 2 + deposit
    stage.chain.block(lambda bound: bound[Balances].transfer(AUDIT_POT, CUSTOMER.stash, stage.pot - left))
    moved = gains(stage, lambda: stage.run(case_id))
    assert sorted(moved.values()) == [deposit // 2, FEE]
    assert stage.pot == deposit, "what an account needs stays, or no small premium would open it again"


def test_a_pot_with_no_more_than_it_needs_stays_open() -> None:
    stage, case_id = audited()
    deposit = stage.chain.now()[Balances].existential_deposit
    stage.chain.block(lambda bound: bound[Balances].transfer(AUDIT_POT, CUSTOMER.stash, stage.pot - deposit))
    assert gains(stage, lambda: stage.run(case_id)) == {}
    stage.chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, 1))
    assert stage.pot == deposit + 1


def test_an_empty_pot_owes_nothing() -> None:
    stage, case_id = audited()
    stage.chain.block(lambda bound: bound[Balances].transfer(AUDIT_POT, CUSTOMER.stash, stage.pot))
    assert gains(stage, lambda: stage.run(case_id)) == {}


def test_a_wrong_result_is_found_by_a_fresh_committee() -> None:
    stage, case_id = audited(settled=WRONG)
    moved = gains(stage, lambda: stage.run(case_id))
    pair, committee = judges(stage, BenchKind.PAIR), judges(stage)
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.AUDIT_WRONG
    assert len({*pair, *committee}) == 5, "fresh judges"
    held = stage.chain.now()[Courts].collateral_of(PRICE)
    assert moved == {stage.racers[0].stash: -held, CUSTOMER.stash: PRICE, **dict.fromkeys((*pair, *committee), FEE)}


def appealed_in_vain(stage: CourtChain, case_id: bytes) -> None:
    appealed(stage, case_id, stage.chain.others[-1])
    assert stage.run(case_id) is CaseOutcome.APPEAL_LOST


@pytest.mark.parametrize("is_appealed", [False, True])
def test_what_a_customer_set_aside_pays_its_pair_before_the_pot_does(*, is_appealed: bool) -> None:
    stage, case_id = audited(customer_spare=2 * FEE)
    pot = stage.pot
    moved = gains(stage, lambda: appealed_in_vain(stage, case_id) if is_appealed else stage.run(case_id))
    assert [moved[judge] for judge in judges(stage, BenchKind.PAIR)] == [FEE] * 2
    assert moved[CUSTOMER.stash] == -2 * FEE
    assert stage.pot == pot


def test_for_a_wrong_result_its_customer_pays_nobody() -> None:
    """Not even if the liar cannot pay: the unit is drawn again with the customer's reserve."""
    chosen = Keys("racer").stash
    claims = (PartyClaim(chosen, ClaimKind.ANSWERED, WRONG, 1),)
    stage, case_id = audited(settled=WRONG, claims=claims, customer_spare=2 * FEE)
    pot = stage.pot
    moved = gains(stage, lambda: appealed_in_vain(stage, case_id))
    assert moved[chosen] == -1
    assert CUSTOMER.stash not in moved
    assert stage.pot < pot


@pytest.mark.parametrize("pair", [SILENT, LIES, INPUT_BAD])
def test_one_judge_of_a_pair_convicts_nobody(pair: Says) -> None:
    stage, case_id = audited(by_bench(pair=pair))
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.AUDIT_RIGHT
    assert all(moved[judge] == FEE for judge in judges(stage))
    assert not set(judges(stage, BenchKind.PAIR)) & set(moved), "two who are silent may have had nothing to look at"


def test_an_unheard_audit_leaves_the_settlement() -> None:
    stage, case_id = audited(by_bench(pair=SILENT, committee=SILENT, court=SILENT), settled=WRONG)
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.UNHEARD
    assert stage.racers[0].stash not in moved


@pytest.mark.parametrize(("silent", "is_called"), [((0, 1, 2), False), ((0, 1), True)])
def test_no_court_is_called_where_most_judges_had_nothing_to_look_at(
    silent: tuple[int, ...], *, is_called: bool
) -> None:
    """The committee's speakers differ. The court would get the input, because the coalition shows it then."""

    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        place = judges_of(case).index(keys.stash)
        if bench == BenchKind.COURT:
            return Says(Answered(RIGHT))
        return SILENT if place in silent else Says(Answered(bytes([place]) * 32))

    stage, case_id = audited(policy)
    stage.run(case_id)
    assert bool(stage.chain.happened(CourtCalled)) is is_called
    ending = stage.chain.now()[Toys].endings[case_id]
    assert ending == (CaseOutcome.COURT_DECIDED if is_called else CaseOutcome.UNHEARD)


@pytest.mark.parametrize(("silent", "fined"), [((0, 1, 2), 0), ((0, 2), 0), ((0,), 1)])
def test_three_who_could_not_look_are_not_fined_for_what_two_say(silent: tuple[int, ...], fined: int) -> None:
    """Two of a coalition in a committee confirm an answer whose input the others never had."""

    def policy(keys: Keys, case: CourtCase, _bench: int) -> Says:
        return SILENT if judges_of(case).index(keys.stash) in silent else Says(Answered(RIGHT))

    stage, case_id = audited(policy)
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.AUDIT_RIGHT
    assert sorted(moved.values()) == [-FEE] * fined + [FEE] * (5 - len(silent))


@pytest.mark.parametrize(("size", "outcome"), [(2, CaseOutcome.AUDIT_WRONG), (1, CaseOutcome.AUDIT_UNDECIDED)])
def test_an_audit_without_a_fresh_committee_needs_two_who_agree(size: int, outcome: CaseOutcome) -> None:
    stage, case_id = audited(settled=WRONG, size=size)
    assert stage.run(case_id) is outcome


def lying(*places: int) -> Policy:
    """Return a policy whose judges in these places confirm the wrong root."""

    def policy(keys: Keys, case: CourtCase, _bench: int) -> Says:
        return LIES if judges_of(case).index(keys.stash) in places else Says(Answered(RIGHT))

    return policy


@pytest.mark.parametrize(
    ("size", "places", "outcome"),
    [
        (3, (0,), CaseOutcome.AUDIT_WRONG),
        (3, (2,), CaseOutcome.AUDIT_WRONG),
        (3, (0, 2), CaseOutcome.AUDIT_RIGHT),
        (4, (0,), CaseOutcome.AUDIT_WRONG),
        (4, (0, 2), CaseOutcome.AUDIT_UNDECIDED),
        (5, (0, 3), CaseOutcome.AUDIT_WRONG),
        (7, (2, 3), CaseOutcome.AUDIT_WRONG),
        (7, (0, 2, 3), CaseOutcome.AUDIT_RIGHT),
    ],
)
def test_without_a_court_more_than_half_of_pair_and_committee_decide(
    size: int, places: tuple[int, ...], outcome: CaseOutcome
) -> None:
    """The wrong root was settled, and the liars confirm it. Two of a fresh committee would have decided."""
    stage, case_id = audited(lying(*places), settled=WRONG, size=size)
    assert stage.run(case_id) is outcome
    assert [len(event.judges) for event in stage.chain.happened(BenchDrawn)] == [2, min(3, size - 2)]


def test_where_there_is_a_court_two_of_the_fresh_committee_decide() -> None:
    stage, case_id = audited(lying(2, 3), settled=WRONG, size=8)
    assert stage.run(case_id) is CaseOutcome.AUDIT_RIGHT


def test_a_pair_that_disagrees_leaves_the_settlement_where_nobody_else_is() -> None:
    stage, case_id = audited(first_lies, settled=WRONG, size=2)
    assert stage.run(case_id) is CaseOutcome.AUDIT_UNDECIDED


def test_a_case_is_an_audit_only_once_the_beacon_says_so() -> None:
    stage, case_id = audited()
    case = stage.case(case_id)
    assert case is not None
    assert case.kind is CaseKind.AUDIT
    assert case.settled == RIGHT


def most_are_right(keys: Keys, case: CourtCase, bench: int) -> Says:
    """Let a pair and a committee lie, and two of a court of five."""
    is_right = bench == BenchKind.COURT and case.benches[-1].members.index(keys.stash) > 1
    return Says(Answered(RIGHT)) if is_right else LIES


def test_what_most_of_a_drawn_court_say_stands_though_two_thirds_do_not() -> None:
    """A third of a court can block its decision, and the opinion of two of three in a committee remained."""
    stage, case_id = audited(most_are_right, size=20, court_seats=5)
    appellant = stage.racers[0]
    appealed(stage, case_id, appellant)
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.AUDIT_RIGHT
    assert appellant.stash not in moved, "neither its collateral nor its bond"
    assert set(moved) <= set(judges(stage, BenchKind.COURT)), "who said what stands has its fee"
