"""Endings of checks and disputes: each is reported with its parties and its amounts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from gpu_tasks.client.units.leaf_checks import NOT_SHOWN, CheckEnd, check_end, dispute_ended, leaves_ended, lost_by
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.opinions import Unanswerable
from gpu_tasks.market.inference import money
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from runtime.cryptography import ss58
from simulation.chains.batch_chain import DisputeChain, LeafChain
from simulation.chains.market_chain import CUSTOMER, signed
from wallet.amounts import format_amount
from watched_chain import KeptNode, WatchedChain

WRONG = range(40)


def leaf_chain(**given: Any) -> LeafChain:
    return LeafChain(kind=WatchedChain, **given)


def node_of(stage: LeafChain, oldest: int = 0) -> KeptNode:
    return KeptNode(cast("WatchedChain", stage.chain), oldest)


def told(stage: LeafChain, unit: bytes, oldest: int = 0) -> tuple[str, CheckEnd | None]:
    async def ask() -> tuple[str, CheckEnd | None]:
        node: Any = node_of(stage, oldest)
        return await leaves_ended(node, unit, stage.unit(unit), await node.finalized())

    return asyncio.run(ask())


def short(who: bytes) -> str:
    return ss58.encode(who)[:8]


def passed(stage: LeafChain) -> bytes:
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit)
    return unit


def all_silent(stage: LeafChain) -> bytes:
    unit = stage.settled()
    stage.shown(unit)
    stage.until(unit)
    return unit


def silent_then_passed(stage: LeafChain) -> bytes:
    unit = stage.settled()
    first = stage.shown(unit)
    while stage.check(unit).auditor in (None, first.stash):
        stage.chain.block()
    stage.chain.block(stage.passes(unit, stage.auditor(unit)))
    stage.until(unit)
    return unit


def doubted(stage: LeafChain) -> bytes:
    unit = stage.settled(WRONG)
    auditor = stage.shown(unit)
    leaf = stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, leaf, stage.claim(unit, leaf)))
    stage.until(unit)
    return unit


def withheld(stage: LeafChain) -> bytes:
    unit = stage.settled(WRONG)
    stage.until(unit)
    return unit


def disputed_in_vain(stage: LeafChain) -> bytes:
    return _disputed(stage, [])


def disputed_rightly(stage: LeafChain) -> bytes:
    return _disputed(stage, [7])


def unusable(stage: LeafChain) -> bytes:
    return _disputed(stage, [], is_usable=False)


def _disputed(stage: LeafChain, wrong: list[int], *, is_usable: bool = True) -> bytes:
    unit = stage.settled(wrong)
    stage.shown(unit)
    stage.until(unit, LeafStage.OPEN)
    found = stage.claim(unit, 7, is_right=bool(wrong))
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, 7, found)))
    case = stage.check(unit).case
    if not is_usable:
        assert case is not None
        stage.said[case] = Unanswerable()
    stage.until(unit)
    return unit


def wrongly_doubted(stage: LeafChain) -> bytes:
    unit = stage.settled()
    auditor = stage.shown(unit)
    leaf = stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, leaf, stage.claim(unit, leaf, is_right=False)))
    stage.until(unit, LeafStage.CHECKING)
    stage.chain.block(stage.passes(unit, stage.auditor(unit)))
    stage.until(unit)
    return unit


CASES: list[tuple[Callable[[LeafChain], bytes], CheckOutcome, str | None, list[str], list[str]]] = [
    (passed, CheckOutcome.PASSED, None, ["right"], ["{auditor} computed the {leaves}"]),
    (
        all_silent,
        CheckOutcome.UNLOOKED,
        None,
        [],
        ["no auditor's", "{leaves}", "settlement", "{silent} did not answer"],
    ),
    (silent_then_passed, CheckOutcome.PASSED, None, ["right"], ["{auditor} computed", "{silent} did not answer"]),
    (
        wrongly_doubted,
        CheckOutcome.PASSED,
        None,
        ["right"],
        ["{auditor} computed", "earlier auditor {dismissed} does not"],
    ),
    (
        doubted,
        CheckOutcome.REFUTED,
        "decided",
        ["wrong"],
        ["leaf {leaf} is", "{auditor} disputed it, and judges", "{lost}"],
    ),
    (
        disputed_rightly,
        CheckOutcome.REFUTED,
        "decided",
        ["wrong"],
        ["leaf 7 is", "its customer disputed it, and judges", "{lost}"],
    ),
    (
        disputed_in_vain,
        CheckOutcome.UNLOOKED,
        "decided",
        ["right"],
        ["leaf 7, which its customer disputed, is", "judges"],
    ),
    (
        unusable,
        CheckOutcome.UNLOOKED,
        "input_bad",
        [],
        ["leaf 7, which its customer disputed, was not judged", "input"],
    ),
    (withheld, CheckOutcome.WITHHELD, None, [], ["the racers did not show", "{lost}"]),
]
"""Ways for a check to end: its outcome, the outcome of its case, the verdicts of the sentence, and parts of it."""


@pytest.mark.parametrize(
    ("play", "outcome", "judged", "verdicts", "says"), CASES, ids=[play.__name__ for play, *_ in CASES]
)
def test_every_end_of_a_check_is_told_and_what_it_moved(
    play: Callable[[LeafChain], bytes], outcome: CheckOutcome, judged: str | None, verdicts: list[str], says: list[str]
) -> None:
    stage = leaf_chain()
    unit = play(stage)
    stage.chain.blocks(5)
    record = stage.unit(unit)
    said, end = told(stage, unit)
    assert end is not None
    assert end.told.outcome is outcome
    check, chain = end.check, cast("WatchedChain", stage.chain)
    liars = [racer for racer in record.racers if record.is_refuted]
    back = [f"its customer got {format_amount(check.terms.price)} oGPU back"] if liars else []
    lost = [f"{short(each.owner)} lost {format_amount(lost_by(record, each))} oGPU" for each in liars]
    dismissed = [who for who in check.drawn if who != check.auditor and who not in check.silent]
    words = {
        "auditor": short(check.auditor or bytes(32)),
        "leaves": f"{len(check.shown)} drawn leaves",
        "leaf": "" if check.doubt is None else str(check.doubt.shown.index),
        "silent": ", ".join(map(short, check.silent)),
        "dismissed": ", ".join(map(short, dismissed)),
        "lost": "; ".join([*lost, *back]),
    }
    for part in says:
        assert part.format(**words) in said
    assert re.findall(r"\b(?:right|wrong)\b", said) == verdicts
    assert said.startswith(f"ended in block {end.block}: ")
    assert ("lost" in said, "back" in said) == (record.is_refuted, record.is_refuted)
    payments = end.payments(record)
    gone = dict.fromkeys([each.payer for each in payments], 0)
    for payment in payments:
        gone[payment.payer] += payment.grains
    got: dict[bytes, int] = {}
    for payment in payments:
        if payment.account is not None:
            got[payment.account] = got.get(payment.account, 0) + payment.grains
    for who in {*gone, *got} - {CUSTOMER.stash}:
        moved = chain.owned_at(who, end.block) - chain.owned_at(who, end.block - 1)
        assert moved == got.get(who, 0) - gone.get(who, 0), "to the grain"
    for racer in record.racers:
        whole = money.collateral(record.rules, record.price)
        assert (
            lost_by(record, racer) == (gone.get(racer.owner, 0) if record.is_refuted else 0) == whole - racer.collateral
        )
    facts = end.facts()
    assert (facts["outcome"], facts["ended_in_block"]) == (outcome.name.lower(), end.block)
    assert facts["leaves"] == [leaf.index for leaf in check.shown]
    assert (facts["judged"], facts["doubted_by"] is None) == (judged, judged is None)
    assert (facts["auditor"], facts["silent"]) == (check.auditor, list(check.silent))


def test_a_fee_that_nobody_earned_goes_to_the_pot_and_is_told_so() -> None:
    stage = leaf_chain()
    unit = all_silent(stage)
    end = told(stage, unit)[1]
    assert end is not None
    assert [(each.role, each.account) for each in end.payments(stage.unit(unit))] == [("audit pot", AUDIT_POT)]


def test_the_block_of_the_end_is_found_with_few_reads_and_not_where_no_state_is_left() -> None:
    stage = leaf_chain()
    unit = doubted(stage)
    end = told(stage, unit)[1]
    assert end is not None
    stage.chain.blocks(100)
    record = stage.unit(unit)

    async def ask(node: Any) -> CheckEnd | None:
        return await check_end(node, unit, record, await node.finalized())

    node = node_of(stage)
    assert asyncio.run(ask(node)) == end
    assert node.reads <= 9
    young = node_of(stage, end.block)
    assert asyncio.run(ask(young)) is None
    said, none = told(stage, unit, end.block)
    assert none is None
    assert "wrong or not shown" in said
    assert said.endswith(NOT_SHOWN)
    assert f"its customer got {format_amount(end.check.terms.price)} oGPU back" in said, "the record says that"


def test_a_node_that_lacks_the_settlement_still_shows_the_end() -> None:
    stage = leaf_chain()
    unit = passed(stage)
    end = told(stage, unit)[1]
    assert end is not None
    stage.chain.blocks(30)
    oldest = end.block - 1
    assert stage.unit(unit).ended_at < oldest
    assert stage.chain.height - oldest < 56
    assert told(stage, unit, max(1, stage.chain.height - 63, stage.unit(unit).ended_at + 1))[1] == end


def test_racers_who_differed_are_told_with_the_leaf_that_was_judged() -> None:
    stage = DisputeChain(kind=WatchedChain, requests=100)
    unit = stage.disputed((), [70])
    liar, held = stage.racer(unit, 1), stage.unit(unit).racers[1].collateral
    stage.play(unit)
    record = stage.unit(unit)

    def ask(oldest: int = 0) -> str | None:
        node: Any = node_of(stage, oldest)
        return asyncio.run(dispute_ended(node, unit, record))

    money_of = (
        f"; {short(liar.stash)} lost {format_amount(held)} oGPU; "
        f"its customer got {format_amount(record.price)} oGPU of that back"
    )
    assert (ask() or "").endswith(money_of)
    assert "leaf 70" in (ask() or "")
    late = ask(stage.chain.height) or ""
    assert "leaf 70" not in late
    assert late.endswith(f"that of {short(liar.stash)} is wrong{money_of}")


def test_who_withheld_its_tree_is_named_and_those_who_agree_are_nobodys_dispute() -> None:
    stage = DisputeChain(kind=WatchedChain, requests=100)
    unit = stage.disputed((), [3])
    silent = stage.racer(unit, 0)
    stage.play(unit, 0)
    node: Any = node_of(stage)
    said = asyncio.run(dispute_ended(node, unit, stage.unit(unit)))
    assert said is not None
    assert said.startswith(f"its racers differed, and {short(silent.stash)} did not show its tree; ")
    agreed = stage.settled()
    assert asyncio.run(dispute_ended(node, agreed, stage.unit(agreed))) is None
