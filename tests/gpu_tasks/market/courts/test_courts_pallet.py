"""The pallet's client interface: its metadata, free duty calls, seats by stash."""

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import NotSeated
from gpu_tasks.market.courts.opinions import Answered, Statement
from runtime.encoding.types import Signed
from runtime.frame.api import Apis, with_apis
from runtime.frame.call import FREE
from runtime.frame.runtime import Runtime
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V15
from runtime.interface.standard_apis import STANDARD_APIS
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionPayment
from simulation.chains.court_chain import PALLETS, CourtChain, Toys
from simulation.chains.market_chain import VERSION, commit_step, refused

SAID, SALT = Statement(Answered(b"r" * 32), b"p" * 32), b"s" * 32


def test_metadata_shows_every_call_event_and_parameter() -> None:
    pallets = (PALLETS[0], Timestamp, PALLETS[1], TransactionPayment, *PALLETS[2:])
    runtime = Runtime(pallets, with_apis(VERSION, STANDARD_APIS))
    shown = METADATA_V15.decode(metadata(Apis(runtime, STANDARD_APIS), 15)[5:])
    courts = next(each.pallet for each in shown.pallets if each.pallet.name == "Courts")
    assert courts.index == Courts.index
    assert courts.storage is not None
    entries = {entry.name for entry in courts.storage.entries}
    assert entries >= {"Cases", "Seats", "Convictions", "JudgeFeeMin", "AuditRatePpm", "CourtSeats", "AppealBlocks"}


def test_duties_are_free_and_an_appeal_is_not() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    second = stage.dispute()
    stage.chain.blocks(4)
    case = stage.case(second)
    assert case is not None
    bound, judge = stage.chain.now(), case.benches[0].members[0]
    assert bound.dispatch(Courts.commit_opinion(case_id=second, commitment=SALT), Signed(judge)) == FREE
    appeal = Courts.appeal(case_id=case_id)
    assert bound.dispatch(appeal, Signed(stage.racers[0].stash)) != FREE


def test_a_judge_finds_its_cases_by_its_stash_until_they_end() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    case = stage.case(case_id)
    assert case is not None
    judge = case.benches[0].members[0]
    assert [found for found, _ in stage.chain.now()[Courts].seats.under(judge)] == [case_id]
    stage.run(case_id)
    assert not list(stage.chain.now()[Courts].seats.under(judge))


def test_who_sits_in_one_case_says_nothing_in_another() -> None:
    stage = CourtChain(size=12)
    first, second = stage.dispute(), stage.dispute()
    stage.chain.blocks(4)
    cases = [stage.case(first), stage.case(second)]
    assert cases[0] is not None
    assert cases[1] is not None
    outside = [judge for judge in cases[0].benches[0].members if judge not in cases[1].benches[0].members]
    assert outside
    call = Courts.commit_opinion(case_id=second, commitment=SALT)
    stage.chain.block(*(refused(judge, call, NotSeated) for judge in outside))
    keys = stage.chain.keys_of(outside[0])
    stage.chain.block(commit_step(keys, first, BenchKind.COMMITTEE, SAID))


def test_the_toy_is_found_by_its_index() -> None:
    bound = CourtChain().chain.now()
    assert bound[Courts].handler(Toys.index) is bound[Toys]
