"""Judges with real daemons: probes, appeals by default, late openings."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_work import FakeExecutor
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, PartyFault
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded, JudgeCharged, OpinionOpened
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Statement, probe_of
from gpu_tasks.market.inference.events import ProviderSlashed, UnitSettled
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.duties import endings, judging
from gpu_tasks.provider.duties.cases import Case
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.verdicts import find_verdict
from provider_chain import INPUT_SALT, REQUEST, Miner, Village, in_village

WRONG = Answered(b"w" * 32)


async def until_over(village: Village, unit: bytes, liar: Miner) -> None:
    """Make blocks until no case about the unit is open. The liar answers wrongly."""
    liar.executor.spoil = True
    for _ in range(250):
        await village.block()
        status = village.unit(unit)
        if status.unit.ended_at and status.case is None:
            return
    raise AssertionError("a case without end")


Change = Callable[[Case, bytes, Statement], Statement]


def on_committees(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Change the opinions of committee judges, by the case, the judge and its finding."""
    honest = find_verdict

    async def find(parts: Parts[Any], case: Case, *more: object) -> Statement:
        said = await honest(parts, case, *more)  # type: ignore[arg-type]
        return change(case, parts.identity.stash, said) if case.seat.bench == BenchKind.COMMITTEE else said

    monkeypatch.setattr(judging, "find_verdict", find)


def conniving(monkeypatch: pytest.MonkeyPatch, liar: Miner) -> None:
    """Let the judges of every committee repeat the liar's answer."""

    def change(case: Case, _: bytes, said: Statement) -> Statement:
        lie = next(racer.reveal for racer in case.unit.racers if racer.owner == liar.keys.stash)
        assert lie is not None
        return replace(said, opinion=Answered(lie.output_root))

    on_committees(monkeypatch, change)


@in_village(5)
async def test_every_judge_opens_the_probe_of_its_own_seat(village: Village) -> None:
    liar = village.miners[0]
    unit = await village.unit_for(liar)
    await until_over(village, unit, liar)
    opened = [one for one in village.happened(OpinionOpened) if one.case == unit]
    assert len(opened) == 3
    assert len({one.statement.probe for one in opened}) == 3
    trace = await FakeExecutor().trace(REQUEST, REQUEST[::-1], b"p" * 32)
    assert probe_of(unit, opened[0].judge, INPUT_SALT, trace) != opened[0].statement.probe, "of another place"
    assert {one.provider for one in village.happened(ProviderSlashed)} == {liar.keys.stash}


@in_village(9)
async def test_an_honest_racer_that_is_found_to_lie_appeals_and_the_judges_pay(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = village.miners[0]
    unit = await village.unit_for(liar)
    conniving(monkeypatch, liar)
    await until_over(village, unit, liar)
    (appeal,) = village.happened(CaseAppealed)
    (ended,) = [one for one in village.happened(CaseEnded) if one.case == unit]
    assert ended.outcome is CaseOutcome.APPEAL_WON
    assert "appealed" in village.miner(appeal.appellant).heard.names()
    convicted = [one for one in village.happened(JudgeCharged) if one.is_convicted]
    assert len(convicted) == 3
    (settled,) = [one for one in village.happened(UnitSettled) if one.unit == unit]
    assert settled.winner == appeal.appellant != liar.keys.stash


@in_village(9)
async def test_a_judge_who_was_outvoted_appeals_where_nobody_else_does(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three give an opinion without computing, and the racers' daemons do not appeal."""
    liar = village.miners[0]
    unit = await village.unit_for(liar)
    seated = list[bytes]()

    def change(_: Case, judge: bytes, said: Statement) -> Statement:
        seated.append(judge)
        return said if len(seated) == 1 else replace(said, opinion=WRONG)

    on_committees(monkeypatch, change)
    monkeypatch.setattr(endings, "is_wronged", lambda *_: False)
    await until_over(village, unit, liar)
    (appeal,) = village.happened(CaseAppealed)
    assert appeal.appellant == seated[0]
    assert village.miner(seated[0]).heard.names().count("appealed") == 1
    (ended,) = [one for one in village.happened(CaseEnded) if one.case == unit]
    assert ended.outcome is CaseOutcome.APPEAL_WON
    assert {one.judge for one in village.happened(JudgeCharged) if one.is_convicted} == set(seated[1:])


@in_village(9)
async def test_a_court_finds_a_probe_that_nobody_computed(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two judges give the wrong answer, the third the right one, copied: its probe reveals that."""
    liar = village.miners[0]
    unit = await village.unit_for(liar)
    lazy = list[bytes]()

    def change(_: Case, judge: bytes, said: Statement) -> Statement:
        lazy.append(judge)
        return replace(said, opinion=WRONG) if len(lazy) > 1 else replace(said, probe=b"c" * 32)

    on_committees(monkeypatch, change)
    await until_over(village, unit, liar)
    convicted = {one.judge for one in village.happened(JudgeCharged) if one.is_convicted}
    assert lazy[0] in convicted
    assert len(convicted) == 3


@in_village(8)
async def test_what_was_withheld_by_mistake_is_opened_while_the_case_is_open(village: Village) -> None:
    """A machine that was away for the whole window: a miss, not a lie."""
    away = village.miners[0]
    unit = await village.unit_for(away)
    for _ in range(200):
        village.node.block()
        status = village.unit(unit)
        racer = next(one for one in status.unit.racers if one.owner == away.keys.stash)
        away.chain.is_away = racer.commitment is not None and status.unit.state is UnitState.RACING
        for miner in village.miners:
            if miner is not away or not away.chain.is_away:
                await miner.step()
        if status.case is not None and status.case.stage is CaseStage.APPEALABLE:
            break
    while village.unit(unit).case is not None:
        await village.block()
    (slashed,) = village.happened(ProviderSlashed)
    assert (slashed.provider, slashed.fault) == (away.keys.stash, PartyFault.MISSED)
