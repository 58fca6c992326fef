"""Every call by every wrong signer and at every wrong time; each condition of a judge alone."""

from collections.abc import Callable

import pytest

from gpu_tasks.market import rounds
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseRules, CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import NotAppealable, NotSeated, OpensNothing, OutOfTurn, SaidAlready, UnknownCase
from gpu_tasks.market.courts.money import case_collateral
from gpu_tasks.market.courts.opinions import Answered, Statement, opinion_commitment
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from runtime.encoding.types import Root, Unsigned
from runtime.frame.errors import BadOrigin, DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Says, statement_of
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    Keys,
    commit_step,
    open_step,
    refused,
    salt_of,
    signed,
)

SAID, NOTHING = Statement(Answered(RIGHT), b"p" * 32), b"n" * 32


def seated(stage: CourtChain) -> tuple[bytes, CourtCase, list[Keys]]:
    """Return a dispute whose committee may commit."""
    case_id = stage.dispute()
    while True:
        stage.chain.block()
        case = stage.case(case_id)
        assert case is not None
        if case.round and case.round.commits_from:
            return case_id, case, [stage.chain.keys_of(judge) for judge in case.benches[-1].members]


def committed(stage: CourtChain) -> tuple[bytes, list[Keys]]:
    """Return a dispute whose committee has committed, before opinions are open."""
    case_id, _, judges = seated(stage)
    stage.chain.block(*(commit_step(keys, case_id, BenchKind.COMMITTEE, SAID) for keys in judges))
    return case_id, judges


def bystanders(stage: CourtChain, judges: list[Keys]) -> list[bytes]:
    """Yield everyone without a seat, by stash and by provider key, and a judge's other keys."""
    others = [keys for keys in (*stage.chain.validators, *stage.chain.others, CUSTOMER) if keys not in judges]
    return [key for keys in others for key in (keys.stash, keys.provider)] + [judges[0].public("session")]


def test_only_who_sits_commits() -> None:
    stage = CourtChain()
    case_id, _, judges = seated(stage)
    call = Courts.commit_opinion(case_id=case_id, commitment=NOTHING)
    stage.chain.block(*(refused(who, call, NotSeated) for who in bystanders(stage, judges)))


def test_only_who_sits_opens() -> None:
    stage = CourtChain()
    case_id, judges = committed(stage)
    stage.chain.blocks(2)
    call = Courts.open_opinion(case_id=case_id, statement=SAID, salt=salt_of(judges[0], case_id))
    stage.chain.block(*(refused(who, call, NotSeated) for who in bystanders(stage, judges)))
    stage.chain.block(*(refused(keys.provider, call, OpensNothing) for keys in judges[1:]))
    stage.chain.block(signed(judges[0].stash, call))


@pytest.mark.parametrize("origin", [Root(), Unsigned()])
def test_no_call_takes_another_origin(origin: Root | Unsigned) -> None:
    stage = CourtChain()
    case_id, _, _ = seated(stage)
    calls = (
        Courts.commit_opinion(case_id=case_id, commitment=NOTHING),
        Courts.open_opinion(case_id=case_id, statement=SAID, salt=NOTHING),
        Courts.appeal(case_id=case_id),
    )
    for call in calls:
        with pytest.raises(BadOrigin):
            stage.chain.now().dispatch(call, origin)


def test_a_case_that_there_is_not() -> None:
    stage = CourtChain()
    calls = (
        Courts.commit_opinion(case_id=NOTHING, commitment=NOTHING),
        Courts.open_opinion(case_id=NOTHING, statement=SAID, salt=NOTHING),
        Courts.appeal(case_id=NOTHING),
    )
    stage.chain.block(*(refused(CUSTOMER.stash, call, UnknownCase) for call in calls))


def test_a_judge_commits_once_and_opens_what_it_committed_to_once() -> None:
    stage = CourtChain()
    case_id, _, judges = seated(stage)
    first = judges[0]
    again = Courts.commit_opinion(case_id=case_id, commitment=NOTHING)
    opened = Courts.open_opinion(case_id=case_id, statement=SAID, salt=salt_of(first, case_id))
    stage.chain.block(
        commit_step(first, case_id, BenchKind.COMMITTEE, SAID),
        refused(first.provider, again, SaidAlready),
        refused(first.provider, opened, OutOfTurn),
    )
    stage.chain.block(
        *(commit_step(keys, case_id, BenchKind.COMMITTEE, SAID) for keys in judges[1:]),
        refused(first.provider, opened, OutOfTurn),
    )
    other = Statement(Answered(WRONG), SAID.probe)
    lie = Courts.open_opinion(case_id=case_id, statement=other, salt=salt_of(first, case_id))
    wrong_salt = Courts.open_opinion(case_id=case_id, statement=SAID, salt=NOTHING)
    stage.chain.block(
        refused(first.provider, lie, OpensNothing),
        refused(first.provider, wrong_salt, OpensNothing),
        open_step(first, case_id, SAID),
        refused(first.provider, opened, SaidAlready),
    )


def test_a_copied_commitment_opens_nothing() -> None:
    stage = CourtChain()
    case_id, _, judges = seated(stage)
    first, copyist, third = judges
    copied = opinion_commitment(GENESIS_HASH, case_id, BenchKind.COMMITTEE, first.stash, SAID, salt_of(first, case_id))
    stage.chain.block(
        commit_step(first, case_id, BenchKind.COMMITTEE, SAID),
        signed(copyist.provider, Courts.commit_opinion(case_id=case_id, commitment=copied)),
        commit_step(third, case_id, BenchKind.COMMITTEE, SAID),
    )
    stage.chain.blocks(2)
    call = Courts.open_opinion(case_id=case_id, statement=SAID, salt=salt_of(first, case_id))
    stage.chain.block(open_step(first, case_id, SAID), refused(copyist.provider, call, OpensNothing))


def test_who_commits_after_the_lease_is_too_late() -> None:
    stage = CourtChain()
    case_id, case, judges = seated(stage)
    first, second, _ = judges
    assert case.round is not None
    lease = stage.chain.now()[Courts].commit_blocks
    stage.chain.block(commit_step(first, case_id, BenchKind.COMMITTEE, SAID))
    while stage.chain.height < case.round.commits_from + lease:
        stage.chain.block()
    late = Courts.commit_opinion(case_id=case_id, commitment=NOTHING)
    stage.chain.block(refused(second.provider, late, OutOfTurn))
    assert stage.case(case_id) is not None, "the first one's opening is still waited for"


def test_a_judge_of_an_earlier_bench_says_nothing_in_the_court() -> None:
    stage = CourtChain(policy=lambda _keys, _case, bench: Says(None if bench == BenchKind.COMMITTEE else SAID.opinion))
    case_id = stage.dispute()
    stage.run(case_id, until=CaseStage.COURT)
    stage.chain.blocks(6)
    case = stage.case(case_id)
    assert case is not None
    assert len(case.benches) == 2
    call = Courts.commit_opinion(case_id=case_id, commitment=NOTHING)
    earlier = case.benches[0].members
    stage.chain.block(*(refused(judge, call, NotSeated) for judge in earlier))


def test_nobody_appeals_where_no_court_is_left() -> None:
    stage = CourtChain(size=6)
    case_id = stage.appealable()
    free = [keys for keys in stage.chain.validators if keys.stash not in _members(stage, case_id)]
    # an appellant is a party: of three remaining validators, two would judge
    stage.chain.block(refused(free[0].stash, Courts.appeal(case_id=case_id), NotAppealable))
    stage.chain.block(signed(stage.chain.others[-1].stash, Courts.appeal(case_id=case_id)))
    stage.run(case_id)


def _members(stage: CourtChain, case_id: bytes) -> tuple[bytes, ...]:
    case = stage.case(case_id)
    assert case is not None
    return case.benches[-1].members


# --------------------------------------------------------------------------------- who may judge, each condition alone


def candidates(stage: CourtChain, case_id: bytes) -> list[bytes]:
    return list(eligible(stage, case_id))


def eligible(stage: CourtChain, case_id: bytes) -> dict[bytes, int]:
    courts = stage.chain.now()[Courts]
    may = courts.may_sit(courts.open_case(case_id))
    return {stash: weight for stash, weight in courts.entrants() if may(stash)}


def test_everybody_in_office_may_judge_by_weight() -> None:
    stage = CourtChain(size=5)
    case_id = stage.dispute()
    courts = stage.chain.now()[Courts]
    weights = eligible(stage, case_id)
    seats = courts.stake.validators(0)
    assert weights == {seat.stash: seat.weight for seat in seats}
    assert len(set(weights.values())) == 3, "unequal weights"


def _poor(bound: Bound, who: bytes) -> None:
    balances = bound[Balances]
    courts = bound[Courts]
    needed = case_collateral(PRICE, 50_000, PRICE // 2) + balances.existential_deposit
    assert needed == _seat(courts) + balances.existential_deposit
    balances.transfer(who, CUSTOMER.stash, balances.free_balance(who) - needed + 1)


def _seat(courts: Courts) -> int:
    return next(case.seat for _, case in courts.cases.items() if case is not None)


def _new_key(bound: Bound, who: bytes) -> None:
    before = bound[Devices].providers[who]
    assert before is not None
    bound[Devices].providers[who] = Provider(before.seal_key, before.endpoint, 1)


def _no_provider(bound: Bound, who: bytes) -> None:
    del bound[Devices].providers[who]


def _tombstone(bound: Bound, who: bytes) -> None:
    bound[TrustStake].tombstone(who)


@pytest.mark.parametrize("spoil", [_poor, _new_key, _no_provider, _tombstone])
def test_each_condition_alone_keeps_a_validator_out(spoil: Callable[[Bound, bytes], None]) -> None:
    stage = CourtChain(size=5)
    case_id = stage.dispute()
    spoiled = stage.chain.validators[2].stash
    before = candidates(stage, case_id)
    assert spoiled in before
    stage.chain.block(lambda bound: spoil(bound, spoiled))
    assert candidates(stage, case_id) == [who for who in before if who != spoiled]


def test_one_grain_more_is_enough_for_a_seat() -> None:
    stage = CourtChain(size=5)
    case_id = stage.dispute()
    who = stage.chain.validators[2].stash

    def spend(bound: Bound) -> None:
        _poor(bound, who)
        bound[Balances].transfer(CUSTOMER.stash, who, 1)

    stage.chain.block(spend)
    assert who in candidates(stage, case_id)


@pytest.mark.parametrize("part", ["customer", "party", "excluded", "operator"])
def test_no_party_judges(part: str) -> None:
    stage = CourtChain(size=5)
    validator = stage.chain.validators[1]
    stage.chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, validator.provider, 10 * PRICE))
    if part == "party":
        stage.racers[1] = validator
        case_id = stage.dispute()
    elif part == "excluded":
        case_id = stage.dispute(excluded=(validator.stash,))
    else:
        case_id = stage.dispute(customer=validator.stash if part == "customer" else validator.provider)
    assert sorted(candidates(stage, case_id)) == sorted(
        keys.stash for keys in stage.chain.validators if keys != validator
    )


def test_a_long_computation_has_its_time() -> None:
    stage = CourtChain()
    long, short = stage.dispute(run_blocks=40), stage.dispute(run_blocks=13)
    courts = stage.chain.now()[Courts]
    assert courts.windows(courts.open_case(long)).commit_window == 60
    assert courts.windows(courts.open_case(short)).commit_window == 20
    windows = courts.windows(courts.open_case(long))
    current = rounds.Round(drawn_at=5, commits_from=6, first_commit=7)
    assert rounds.commit_deadline(current, windows) == 66, "a first commit closes nothing early"


def test_a_running_case_goes_by_the_rules_of_its_opening() -> None:
    stage = CourtChain()
    case_id = stage.dispute()
    before = stage.chain.now()[Courts].windows(_open(stage, case_id))
    stage.chain.block(_changing)
    assert stage.chain.now()[Courts].windows(_open(stage, case_id)) == before
    stage.run(case_id, until=CaseStage.APPEALABLE)
    assert _open(stage, case_id).appealable_until == stage.chain.height + 20
    later = _open(stage, stage.dispute())
    assert later.rules == CaseRules(50_000, 7, 7, 7, 7)


CHANGED = (Courts.court_seats, Courts.commit_blocks, Courts.open_blocks, Courts.appeal_blocks)


def _changing(bound: Bound) -> None:
    for parameter in CHANGED:
        bound.parameters.change(parameter, 7)


def _open(stage: CourtChain, case_id: bytes) -> CourtCase:
    case = stage.case(case_id)
    assert case is not None
    return case


def test_statements_carry_the_probe() -> None:
    stage = CourtChain()
    case_id = stage.appealable()
    courts = stage.chain.now()[Courts]
    places = set()
    for judge in _members(stage, case_id):
        seat = courts.seats[judge, case_id]
        assert seat is not None
        assert seat.statement == statement_of(stage.chain.keys_of(judge), Says(Answered(RIGHT)))
        places.add(seat.probe_place)
    assert len(places) == 3, "each seat has a place of its own"


def test_errors_are_dispatch_errors() -> None:
    assert all(issubclass(error, DispatchError) for error in Courts.errors)
