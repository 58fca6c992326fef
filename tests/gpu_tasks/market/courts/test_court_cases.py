"""Disputes of a toy handler from their opening to their end: small sets, withholding, third lies."""

import pytest

from court_habits import (
    COLLATERAL,
    FEE,
    HIDES,
    INPUT_BAD,
    LIES,
    SEAT,
    SILENT,
    appealed,
    by_bench,
    first_lies,
    gains,
    judges,
    split,
)
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CourtCalled, JudgeCharged, OutOfTurn
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Says, Toys
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys


def test_a_dispute_is_decided_by_three_and_waits_for_an_appeal() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    case = stage.case(case_id)
    assert case is not None
    assert (case.verdict, case.has_court, len(case.benches)) == (Answered(RIGHT), True, 1)
    moved = gains(stage, lambda: stage.run(case_id))
    assert moved == {CUSTOMER.stash: PRICE, stage.racers[1].stash: -COLLATERAL, **dict.fromkeys(judges(stage), FEE)}
    toys = stage.chain.now()[Toys]
    assert toys.endings[case_id] == CaseOutcome.DECIDED
    assert toys.faults[case_id, stage.racers[1].stash] == PartyFault.LIED


def test_a_minority_of_an_unappealed_committee_loses_its_fee_and_no_more() -> None:
    stage = CourtChain(policy=first_lies)
    case_id = stage.dispute()
    moved = gains(stage, lambda: stage.run(case_id))
    first, *others = judges(stage)
    assert first not in moved
    assert all(moved[judge] == FEE for judge in others)


@pytest.mark.parametrize("says", [SILENT, HIDES])
def test_who_is_silent_or_does_not_open_loses_a_fee(says: Says) -> None:
    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        return says if case.benches[-1].members[0] == keys.stash else Says(Answered(RIGHT))

    stage = CourtChain(policy=policy)
    case_id = stage.dispute()
    moved = gains(stage, lambda: stage.run(case_id))
    first, *others = judges(stage)
    assert moved[first] == -FEE
    assert all(moved[judge] == FEE for judge in others)
    assert [(event.judge, event.is_convicted) for event in stage.chain.happened(JudgeCharged)] == [(first, False)]


def test_an_undecided_committee_goes_to_the_court_which_convicts_its_judges() -> None:
    stage = CourtChain(policy=split)
    case_id = stage.dispute()
    moved = gains(stage, lambda: stage.run(case_id))
    right, lying, other = judges(stage)
    court = judges(stage, BenchKind.COURT)
    assert len(stage.chain.happened(CourtCalled)) == 1
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.COURT_DECIDED
    assert sorted(court) == sorted(keys.stash for keys in stage.chain.validators if keys.stash not in judges(stage))
    assert moved[lying] == -SEAT
    assert other not in moved, "it found no usable input, and the court may have been shown another"
    assert all(moved[judge] == FEE for judge in (right, *court))
    assert moved[CUSTOMER.stash] == PRICE


def heard_by_a_court(stage: CourtChain, case_id: bytes, appellant: Keys) -> None:
    appealed(stage, case_id, appellant)
    stage.run(case_id)


def test_an_input_that_is_shown_to_the_court_alone_charges_only_who_appealed() -> None:
    """Its racers and first judges could not read it: no seat, no collateral. The appeal's bond pays the court."""
    stage = CourtChain(policy=by_bench(committee=INPUT_BAD))
    case_id = stage.bring([(keys.stash, ClaimKind.DECLINED, None) for keys in stage.racers])
    stranger = stage.chain.others[-1]
    moved = gains(stage, lambda: heard_by_a_court(stage, case_id, stranger))
    court = judges(stage, BenchKind.COURT)
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.APPEAL_WON
    assert moved == {stranger.stash: -len(court) * FEE, **dict.fromkeys(court, FEE)}


def test_a_lie_beside_it_is_charged_as_ever() -> None:
    """The first judges dismissed a wrong answer together with the input. The court finds the right one."""
    stage = CourtChain(policy=by_bench(committee=INPUT_BAD))
    case_id, stranger = stage.dispute(), stage.chain.others[-1]
    moved = gains(stage, lambda: heard_by_a_court(stage, case_id, stranger))
    court = judges(stage, BenchKind.COURT)
    assert moved[stage.racers[1].stash] == -COLLATERAL
    assert all(moved[judge] == FEE for judge in court)
    assert stranger.stash not in moved, "who lied pays the court before the bond does"


def test_no_court_is_called_about_an_input_that_nobody_answered() -> None:
    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        return (INPUT_BAD, Says(Answered(RIGHT)), LIES)[case.benches[-1].members.index(keys.stash)]

    stage = CourtChain(policy=policy)
    case_id = stage.bring([(keys.stash, ClaimKind.DECLINED, None) for keys in stage.racers])
    assert gains(stage, lambda: stage.run(case_id)) == {}
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.UNDECIDED
    assert not stage.chain.happened(CourtCalled)


@pytest.mark.parametrize("size", [4, 7, 16])
def test_what_nobody_could_look_at_costs_the_customer_its_bond_and_no_judge_anything(size: int) -> None:
    stage = CourtChain(size=size, policy=by_bench(committee=SILENT, court=SILENT))
    case_id = stage.dispute()
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.UNHEARD
    assert moved == {CUSTOMER.stash: -PRICE // 20}


@pytest.mark.parametrize(("speaking", "fined"), [(2, 0), (3, 0), (4, 0), (5, 2), (6, 1), (7, 0)])
def test_half_who_speak_show_that_it_could_be_looked_at_and_two_thirds_that_all_could(
    speaking: int, fined: int
) -> None:
    """Seven judges sit, three and four. Three speakers are fewer than half, four are fewer than two thirds."""

    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        spoken = [Says(Answered(bytes([number]) * 32)) for number in range(speaking)]
        place = [judge for each in case.benches for judge in each.members].index(keys.stash)
        order = (0, 3, 4, 5, 6, 1, 2)  # of the committee and of the court: all differ
        return spoken[order.index(place)] if place in order[:speaking] else SILENT

    stage = CourtChain(policy=policy)
    case_id = stage.dispute()
    moved = gains(stage, lambda: stage.run(case_id))
    is_heard = speaking * 2 >= 7
    assert stage.chain.now()[Toys].endings[case_id] == (CaseOutcome.UNDECIDED if is_heard else CaseOutcome.UNHEARD)
    assert sorted(moved.values()) == ([-FEE] * fined if is_heard else [-PRICE // 20]), "its judges, or its customer"


def test_a_bad_input_costs_the_customer_its_judges() -> None:
    stage = CourtChain(policy=by_bench(committee=INPUT_BAD))
    claims = [(keys.stash, ClaimKind.DECLINED, None) for keys in stage.racers]
    case_id = stage.bring(claims)
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.INPUT_BAD
    assert moved == {CUSTOMER.stash: -PRICE - PRICE // 20, **dict.fromkeys(judges(stage), FEE)}


def test_who_declined_a_good_input_pays_the_judges() -> None:
    stage = CourtChain()
    case_id = stage.bring([(keys.stash, ClaimKind.DECLINED, None) for keys in stage.racers])
    moved = gains(stage, lambda: stage.run(case_id))
    each = PRICE // 4 + 3 * FEE // 2
    assert moved == {**{keys.stash: -each for keys in stage.racers}, **dict.fromkeys(judges(stage), FEE)}


@pytest.mark.parametrize(("outside", "lost"), [(200, COLLATERAL), (1_200, PRICE + 3 * FEE + PRICE // 4)])
def test_without_a_court_a_liar_pays_whole_what_more_than_a_third_of_the_stake_says(outside: int, lost: int) -> None:
    """Three judges have 200 each.

    The fourth active validator, barred from judging, has as much or two thirds of all.
    """
    stage = CourtChain(size=4, bonds=(outside * OGPU, 200 * OGPU, 200 * OGPU, 200 * OGPU))
    case_id = stage.dispute(excluded=(stage.chain.validators[0].stash,))
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.DECIDED
    assert moved[stage.racers[1].stash] == -lost
    assert moved[CUSTOMER.stash] == PRICE


def test_two_judges_must_agree_and_one_decides_nothing() -> None:
    stage = CourtChain(size=2)
    assert stage.run(stage.dispute()) is CaseOutcome.DECIDED
    stage = CourtChain(size=2, policy=first_lies)
    assert stage.run(stage.dispute()) is CaseOutcome.UNDECIDED
    stage = CourtChain(size=1)
    assert stage.run(stage.dispute()) is CaseOutcome.UNDECIDED


@pytest.mark.parametrize(
    ("late", "fault"), [(RIGHT, PartyFault.MISSED), (WRONG, PartyFault.LIED), (None, PartyFault.LIED)]
)
def test_what_was_withheld_is_a_miss_if_it_was_right(late: bytes | None, fault: PartyFault) -> None:
    stage = CourtChain()
    first, second = stage.racers
    case_id = stage.bring([(first.stash, ClaimKind.ANSWERED, RIGHT), (second.stash, ClaimKind.WITHHELD, None)])
    stage.run(case_id, until=CaseStage.APPEALABLE)
    if late is not None:
        root = late
        stage.chain.block(lambda bound: bound[Courts].open_late(case_id, second.stash, root))
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].faults[case_id, second.stash] == fault
    price = COLLATERAL if fault is PartyFault.LIED else PRICE // 4 + 3 * FEE
    assert moved[second.stash] == -price


def test_only_what_was_withheld_is_opened_late_and_once() -> None:
    stage = CourtChain()
    first, second = stage.racers
    case_id = stage.bring([(first.stash, ClaimKind.ANSWERED, WRONG), (second.stash, ClaimKind.WITHHELD, None)])
    stage.chain.block(lambda bound: bound[Courts].open_late(case_id, second.stash, RIGHT))
    for party in (first.stash, second.stash, CUSTOMER.stash):
        with pytest.raises(OutOfTurn):
            stage.chain.now()[Courts].open_late(case_id, party, RIGHT)
    appealed(stage, case_id, stage.chain.others[-1])
    with pytest.raises(OutOfTurn):
        stage.chain.now()[Courts].open_late(case_id, second.stash, RIGHT)


def test_once_a_court_is_called_nothing_is_opened_late() -> None:
    stage = CourtChain()
    first, second = stage.racers
    case_id = stage.bring([(first.stash, ClaimKind.ANSWERED, RIGHT), (second.stash, ClaimKind.WITHHELD, None)])
    appealed(stage, case_id, stage.chain.others[-1])
    with pytest.raises(OutOfTurn):
        stage.chain.now()[Courts].open_late(case_id, second.stash, RIGHT)


def test_the_third_lie_goes_before_the_court_by_itself() -> None:
    stage = CourtChain(size=12)
    outcomes = [stage.run(stage.dispute()) for _ in range(3)]
    assert outcomes == [CaseOutcome.DECIDED, CaseOutcome.DECIDED, CaseOutcome.COURT_DECIDED]
    found, counts_for = stage.chain.height, stage.chain.now()[Courts].conviction_blocks
    assert stage.chain.now()[Toys].expelled_until[stage.racers[1].stash] == found + counts_for
    assert not stage.chain.now()[Toys].expelled_until[stage.racers[0].stash]


def test_an_old_lie_counts_no_more() -> None:
    stage = CourtChain(size=12, constants={"Courts.conviction_blocks": 100})
    stage.run(stage.dispute())
    stage.chain.blocks(100)
    assert stage.run(stage.dispute()) is CaseOutcome.DECIDED
    assert stage.run(stage.dispute()) is CaseOutcome.DECIDED


def test_of_many_lies_the_newest_are_remembered() -> None:
    stage, found = CourtChain(size=12), list[int]()
    for _ in range(3):
        stage.run(stage.dispute())
        found.append(stage.chain.height)
    assert stage.chain.now()[Courts].convictions[stage.racers[1].stash] == tuple(found[1:])


def test_a_court_of_four_ends_no_registration() -> None:
    stage = CourtChain(size=7)
    assert [stage.run(stage.dispute()) for _ in range(3)][-1] is CaseOutcome.COURT_DECIDED
    assert not stage.chain.now()[Toys].expelled_until[stage.racers[1].stash]
