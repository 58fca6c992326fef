"""Appeals: their cost, their gain, and their deadline."""

from court_habits import COLLATERAL, FEE, LIES, SEAT, SEATS, SILENT, appealed, by_bench, gains, judges, split
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import NotAppealable
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered
from runtime.frame.errors import FundsUnavailable
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Says, Toys
from simulation.chains.market_chain import CUSTOMER, Keys, refused, signed


def _appealed_and_over(stage: CourtChain, case_id: bytes, appellant: Keys) -> None:
    appealed(stage, case_id, appellant)
    stage.run(case_id)


def test_a_won_appeal_pays_twice_the_price_out_of_wrong_judges() -> None:
    stage = CourtChain(policy=by_bench(committee=LIES))
    case_id = stage.dispute()
    appellant = stage.racers[0]
    moved = gains(stage, lambda: _appealed_and_over(stage, case_id, appellant))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.APPEAL_WON
    assert moved[appellant.stash] == 2 * PRICE
    assert moved[stage.racers[1].stash] == -COLLATERAL
    assert all(moved[judge] == -SEAT for judge in judges(stage))
    assert all(moved[judge] == FEE for judge in judges(stage, BenchKind.COURT))
    assert moved[CUSTOMER.stash] == PRICE


def test_who_loses_collateral_by_a_verdict_appeals_with_once_the_price() -> None:
    stage = CourtChain()
    case_id, liar = stage.appealable(), stage.racers[1]
    before = stage.free(liar.stash)
    stage.chain.block(signed(liar.stash, Courts.appeal(case_id=case_id)))
    assert stage.free(liar.stash) == before - PRICE
    moved = gains(stage, lambda: stage.run(case_id))
    assert stage.chain.now()[Toys].endings[case_id] == CaseOutcome.APPEAL_LOST
    assert moved[liar.stash] == -COLLATERAL - PRICE
    assert all(moved[judge] == FEE for judge in judges(stage) + judges(stage, BenchKind.COURT))


def test_who_loses_a_collateral_of_dust_appeals_with_what_its_court_costs() -> None:
    """For a grain, a court of the whole active set sat without pay."""
    stage = CourtChain(size=9)
    claims = [(keys.stash, ClaimKind.ANSWERED, root) for keys, root in zip(stage.racers, (RIGHT, WRONG), strict=True)]
    case_id = stage.bring(claims, price=1)
    stage.run(case_id, until=CaseStage.APPEALABLE)
    liar, fee = stage.racers[1], stage.chain.now()[Courts].fee_of(1)
    held, before = 1 + 5 * fee, stage.free(liar.stash)
    stage.chain.block(signed(liar.stash, Courts.appeal(case_id=case_id)))
    assert before - stage.free(liar.stash) == 1 + 9 * fee - held, "of three and of six judges"
    pot = stage.pot
    moved = gains(stage, lambda: stage.run(case_id))
    assert all(moved[judge] == fee for judge in judges(stage) + judges(stage, BenchKind.COURT))
    assert (moved[liar.stash], stage.pot) == (-held - (1 + 9 * fee - held), pot)


def test_anybody_appeals_with_the_fees_of_the_court() -> None:
    stage = CourtChain(size=9)
    case_id, stranger = stage.appealable(), stage.chain.others[-1]
    before = stage.free(stranger.stash)
    stage.chain.block(signed(stranger.stash, Courts.appeal(case_id=case_id)))
    assert stage.free(stranger.stash) == before - 6 * FEE, "nine less the three of the committee"
    stage.run(case_id)
    assert stage.free(stranger.stash) == before - 6 * FEE


def test_an_undecided_appeal_leaves_the_first_verdict() -> None:
    stage = CourtChain(policy=by_bench(court=SILENT))
    case_id = stage.dispute()
    stranger = stage.chain.others[-1]
    before = stage.free(stranger.stash)
    appealed(stage, case_id, stranger)
    assert stage.run(case_id) is CaseOutcome.APPEAL_UNDECIDED
    assert stage.chain.now()[Toys].faults[case_id, stage.racers[1].stash] == PartyFault.LIED
    assert stage.free(stranger.stash) == before, "the liar pays the judges that stay right"


def test_a_wrong_probe_is_a_wrong_verdict_on_appeal() -> None:
    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        return Says(Answered(RIGHT), doubted=0b010 if bench == BenchKind.COURT else 0)

    stage = CourtChain(policy=policy)
    case_id = stage.dispute()
    appealed(stage, case_id, stage.chain.others[-1])
    moved = gains(stage, lambda: stage.run(case_id))
    first, copyist, third = judges(stage)
    assert moved[copyist] == -SEAT
    assert moved[first] == moved[third] == FEE


def test_an_appeal_has_its_time_and_there_is_one() -> None:
    stage = CourtChain()
    case_id, stranger = stage.dispute(), stage.chain.others[-1]
    call = Courts.appeal(case_id=case_id)
    stage.chain.block(refused(stranger.stash, call, NotAppealable))
    stage.run(case_id, until=CaseStage.APPEALABLE)
    case = stage.case(case_id)
    assert case is not None
    while stage.chain.height < case.appealable_until - 1:
        stage.chain.block()
    stage.chain.block(signed(stranger.stash, call), refused(stage.racers[0].stash, call, NotAppealable))
    stage.run(case_id, until=None)


def test_one_block_later_the_case_is_over() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    case = stage.case(case_id)
    assert case is not None
    while stage.chain.height < case.appealable_until:
        assert stage.case(case_id) is not None
        stage.chain.block()
    stage.chain.block()
    assert stage.case(case_id) is None


def test_an_appeal_needs_its_bond() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    stage.chain.block(refused(b"poor".ljust(32, b"."), Courts.appeal(case_id=case_id), FundsUnavailable))


def test_a_larger_court_is_drawn_with_a_vote_each() -> None:
    stage = CourtChain(size=10, constants={"Courts.court_seats": SEATS}, policy=split)
    case_id = stage.dispute()
    assert stage.run(case_id) is CaseOutcome.COURT_DECIDED
    assert len(judges(stage, BenchKind.COURT)) == SEATS


def test_a_validator_that_appeals_does_not_sit_in_the_court() -> None:
    stage = CourtChain(size=9)
    case_id = stage.appealable()
    appellant = next(keys for keys in stage.chain.validators if keys.stash not in judges(stage))
    before = stage.free(appellant.stash)
    stage.chain.block(signed(appellant.provider, Courts.appeal(case_id=case_id)))
    assert before - stage.free(appellant.stash) == 5 * FEE, "nor does it pay for a seat of its own"
    stage.run(case_id)
    assert len(judges(stage, BenchKind.COURT)) == 5
    assert appellant.stash not in judges(stage, BenchKind.COURT)
