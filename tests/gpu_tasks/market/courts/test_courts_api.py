"""The courts' view for judges and parties: a case's record, and its bench's clocks."""

from typing import Any

from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import CaseStatus, CourtsApi
from runtime.frame.api import Apis
from simulation.chains.court_chain import CourtChain
from simulation.chains.market_chain import GENESIS_HASH


def asked(stage: CourtChain, name: str, data: bytes) -> Any:
    """Return an answer after its encoding and decoding."""
    apis = Apis(stage.chain.runtime, (CourtsApi,))
    raw = apis.call(stage.chain.state, GENESIS_HASH, f"CourtsApi_{name}", data)
    return apis.methods[f"CourtsApi_{name}"].output.decode(raw)


def test_a_case_is_shown_with_the_clocks_of_its_bench() -> None:
    stage = CourtChain()
    case_id = stage.dispute()
    case = stage.case(case_id)
    assert case is not None
    assert asked(stage, "case", case_id) == CaseStatus(case, 0, 0, 0), "nobody is drawn yet"
    stage.chain.blocks(4)
    shown = asked(stage, "case", case_id)
    assert shown.case == stage.case(case_id)
    assert shown.case.round is not None
    lease = stage.chain.now()[Courts].commit_blocks
    commits_from = shown.case.round.commits_from or stage.chain.height + 1
    assert (shown.commits_until, shown.opens_from, shown.opens_until) == (commits_from + lease, 0, 0)
    stage.run(case_id, until=CaseStage.APPEALABLE)
    assert asked(stage, "case", case_id).case.appealable_until == stage.chain.height + 20
    stage.run(case_id)
    assert asked(stage, "case", case_id) is None


def test_a_judge_is_shown_its_seats_and_nobody_elses() -> None:
    stage = CourtChain()
    cases = sorted((stage.dispute(), stage.dispute()))
    stage.chain.blocks(4)
    courts = stage.chain.now()[Courts]
    seated = 0
    for keys in stage.chain.validators:
        shown = asked(stage, "seats", keys.stash)
        assert [each.id for each in shown] == [case for case in cases if courts.seats[keys.stash, case] is not None]
        for each in shown:
            assert each.seat == courts.seats[keys.stash, each.id]
            assert each.status == asked(stage, "case", each.id)
        seated += len(shown)
    assert seated == 6


def test_who_judges_a_case_is_shown_with_what_each_has_said() -> None:
    stage = CourtChain()
    case_id = stage.dispute()
    assert asked(stage, "judges", case_id) == ()
    stage.run(case_id, until=CaseStage.APPEALABLE)
    case, courts = stage.case(case_id), stage.chain.now()[Courts]
    assert case is not None
    shown = asked(stage, "judges", case_id)
    assert [judge for judge, _ in shown] == list(case.benches[0].members)
    assert all(seat == courts.seats[judge, case_id] and seat.statement for judge, seat in shown)
    stage.run(case_id)
    assert asked(stage, "judges", case_id) == ()
