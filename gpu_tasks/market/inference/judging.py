"""A dispute from its opening to its verdict.

Always: judges come from the validators in office that could open the input when it was sealed; the
customer, the racers and earlier judges of the unit are none of them; a verdict moves money only
after `committees.decision`; a dispute that nobody can decide costs nobody anything.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tasks.market import rounds
from gpu_tasks.market.inference import agenda, committees, races
from gpu_tasks.market.inference.commitments import InputBad, Recomputed, verdict_commitment
from gpu_tasks.market.inference.committees import Committee, Judge
from gpu_tasks.market.inference.ending import refund, settle, slash_liar
from gpu_tasks.market.inference.events import (
    AlreadyDone,
    CommitteeDecided,
    CommitteeDrawn,
    NotAssigned,
    UnitDisputed,
    VerdictCommitted,
    VerdictRevealed,
    WindowClosed,
    WrongOpening,
)
from gpu_tasks.market.inference.queueing import BEACON_DELAY, requeue
from gpu_tasks.market.inference.units import Duty, Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round
from runtime.cryptography.draw import lottery
from runtime.frame.pallet import ensure

if TYPE_CHECKING:
    from gpu_tasks.market.inference.inference import InferenceMarket

JUDGES_MIN = 2
"""One judge alone decides nothing."""


def open_dispute(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """Hand a unit over to a committee, which is drawn once its beacon is final."""
    market.units[unit_id] = replace(unit, state=UnitState.JUDGING)
    market.emit(UnitDisputed(unit_id))
    _record(market, unit_id, committees.first_committee(market.system.number.get()))


def step_judging(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """Do what is due in a dispute: draw the committee, open reveals, read the verdicts."""
    committee, height = _committee(market, unit_id), market.system.number.get()
    if committee.round is None:
        if market.beacon.final_height() >= committee.recorded_at + BEACON_DELAY:
            _draw(market, unit_id, unit, committee)
        return
    now = rounds.advanced(committee.round, market.judging_windows, height, market.beacon.final_height())
    committee = replace(committee, round=now)
    market.committees[unit_id] = committee
    if rounds.is_over(now, market.judging_windows, height) or (now.closed_at and not now.first_commit):
        _read_verdicts(market, unit_id, unit, committee)
    else:
        agenda.follow(market, unit_id, now, market.judging_windows)


def commit_verdict(market: "InferenceMarket", unit_id: bytes, account: bytes, number: int, commitment: bytes) -> None:
    """A judge commits to a verdict."""
    committee, member, now = _acting_member(market, unit_id, account, number)
    height = market.system.number.get()
    ensure(member.commitment is None, AlreadyDone)
    ensure(rounds.can_commit(now, market.judging_windows, height), WindowClosed)
    committee = committees.with_member(committee, replace(member, commitment=commitment))
    now = rounds.committed(now, height, is_last=all(one.commitment for one in committee.members))
    market.committees[unit_id] = replace(committee, round=now)
    market.emit(VerdictCommitted(unit_id, number, account))
    agenda.follow(market, unit_id, now, market.judging_windows)


def reveal_verdict(
    market: "InferenceMarket",
    unit_id: bytes,
    unit: Unit,
    account: bytes,
    number: int,
    verdict: Recomputed | InputBad,
    salt: bytes,
) -> None:
    """A judge opens its verdict; the last one to do so decides at once."""
    committee, member, now = _acting_member(market, unit_id, account, number)
    ensure(member.commitment is not None, NotAssigned)
    ensure(member.verdict is None, AlreadyDone)
    ensure(rounds.can_reveal(now, market.judging_windows, market.system.number.get()), WindowClosed)
    expected = verdict_commitment(market.system.block_hash[0], unit_id, number, account, verdict, salt)
    ensure(expected == member.commitment, WrongOpening)
    committee = committees.with_member(committee, replace(member, verdict=verdict))
    market.committees[unit_id] = committee
    market.emit(VerdictRevealed(unit_id, number, account, verdict))
    if all(one.verdict is not None for one in committee.members if one.commitment is not None):
        _read_verdicts(market, unit_id, unit, committee)


def _record(market: "InferenceMarket", unit_id: bytes, committee: Committee) -> None:
    market.committees[unit_id] = committee
    agenda.once_final(market, committee.recorded_at + BEACON_DELAY, unit_id)


def _draw(market: "InferenceMarket", unit_id: bytes, unit: Unit, committee: Committee) -> None:
    height = market.system.number.get()
    seed = market.beacon.value_at(committee.recorded_at + BEACON_DELAY)
    if seed is None:  # finality stood still for longer than the beacon remembers
        _record(market, unit_id, replace(committee, recorded_at=height))
        return
    eligible = _eligible(market, unit, committee)
    label = b"judges" + unit_id + bytes((committee.number,))
    drawn = lottery(seed, label, eligible, committee.size)
    if len(drawn) < JUDGES_MIN:
        _finish(market, unit_id)
        refund(market, unit_id, unit, Refund.INCONCLUSIVE)
        return
    members = tuple(Judge(eligible[place][0]) for place in drawn)
    for one in members:
        market.duties[one.account, unit_id] = Duty.JUDGE
    market.committees[unit_id] = replace(committee, members=members, round=Round(drawn_at=height))
    agenda.once_final(market, height, unit_id)
    market.emit(CommitteeDrawn(unit_id, committee.number, tuple(one.account for one in members)))


def _eligible(market: "InferenceMarket", unit: Unit, committee: Committee) -> list[tuple[bytes, int]]:
    """Who may judge, with its weight: in office, without offence, a reader of the input, and no party."""
    customer = market.devices.operator(unit.customer)
    parties = (unit.customer, customer, *unit.declined_by, *(racer.owner for racer in unit.racers), *committee.served)
    chosen = []
    for seat in market.stake.validators(market.beacon.epoch()):
        provider = market.devices.providers[seat.stash]
        if (
            provider is not None
            and provider.key_since <= unit.terms.sealed_at
            and market.stake.is_candidate(seat.stash)
            and seat.stash not in parties
        ):
            chosen.append((seat.stash, seat.weight))
    return chosen


def _read_verdicts(market: "InferenceMarket", unit_id: bytes, unit: Unit, committee: Committee) -> None:
    verdict = committees.decision(committee)
    if verdict is None:
        following = committees.next_committee(committee, market.system.number.get())
        _finish(market, unit_id)
        if following is None:
            refund(market, unit_id, unit, Refund.INCONCLUSIVE)
        else:
            _record(market, unit_id, following)
        return
    market.emit(CommitteeDecided(unit_id, committee.number, verdict))
    judges = committees.majority(committee, verdict)
    _finish(market, unit_id)
    if isinstance(verdict, InputBad):
        refund(market, unit_id, unit, Refund.INPUT_BAD, judges)
    else:
        _enforce(market, unit_id, unit, verdict.output_root, judges)


def _enforce(
    market: "InferenceMarket", unit_id: bytes, unit: Unit, output_root: bytes, judges: tuple[bytes, ...]
) -> None:
    """Slash who revealed another root; pay who revealed this one, or draw the unit again."""
    for liar in races.liars(unit.racers, output_root):
        slash_liar(market, unit_id, unit, liar, judges)
    result = races.result(unit.racers, output_root)
    if result is None:
        requeue(market, unit_id, unit)
    else:
        settle(market, unit_id, unit, result, judges)


def _finish(market: "InferenceMarket", unit_id: bytes) -> None:
    for one in _committee(market, unit_id).members:
        del market.duties[one.account, unit_id]
    del market.committees[unit_id]


def _acting_member(
    market: "InferenceMarket", unit_id: bytes, account: bytes, number: int
) -> tuple[Committee, Judge, Round]:
    committee = market.committees[unit_id]
    member = committees.member_of(committee, account) if committee else None
    ensure(committee is not None and committee.number == number and member is not None, NotAssigned)
    assert committee is not None  # for the type checker
    assert member is not None
    ensure(committee.round is not None, NotAssigned)
    assert committee.round is not None
    return committee, member, committee.round


def _committee(market: "InferenceMarket", unit_id: bytes) -> Committee:
    committee = market.committees[unit_id]
    if committee is None:
        raise RuntimeError("a unit in dispute has a committee")
    return committee
