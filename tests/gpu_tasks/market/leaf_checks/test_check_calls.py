"""The calls of LeafChecks: the allowed senders, times and arguments. Any other call is refused without effect."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import LeafPath, Totals, batch_root, leaf_paths, path_claim, totals_of
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import (
    CheckWindowClosed,
    LeafCheckEnded,
    LeavesShown,
    NotAnswerer,
    NotAuditor,
    NotBatchCustomer,
    NothingDoubted,
    UnknownCheck,
    WrongLeaves,
)
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.encoding.types import Signed
from runtime.frame.call import FREE, Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from simulation.chains.batch_chain import LeafChain, leaves_for
from simulation.chains.market_chain import CUSTOMER, Keys, refused, signed

NODE = b"n" * 32


def everybody(stage: LeafChain) -> list[Keys]:
    """Return all key holders of the chain."""
    return [*stage.chain.validators, CUSTOMER]


def none_may(stage: LeafChain, call: Call, error: type[DispatchError], *, but: list[Keys]) -> None:
    """Check that every other stash and provider key, and an unknown key, are refused."""
    others = [keys for keys in everybody(stage) if keys not in but]
    accounts = [account for keys in others for account in (keys.stash, keys.provider)]
    stage.chain.block(*(refused(account, call, error) for account in (*accounts, b"?" * 32)))


def passing(unit: bytes) -> Call:
    """Return any proof."""
    return LeafChecks.pass_leaves(unit=unit, proof=NODE)


def test_only_who_answered_shows_leaves() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    call, answerers = stage.show_call(unit), stage.answerers(unit)
    none_may(stage, call, NotAnswerer, but=answerers)
    assert stage.chain.now().dispatch(call, Signed(answerers[0].provider)) == FREE
    assert stage.chain.now().dispatch(call, Signed(answerers[1].stash)) == FREE


def test_only_the_auditor_passes_or_doubts() -> None:
    stage = LeafChain(numbers={"LeafChecks.check_blocks": 40})
    unit = stage.settled()
    auditor = stage.shown(unit)
    doubting = LeafChecks.doubt_leaf(unit=unit, index=stage.check(unit).shown[0].index, found=NODE)
    for call in (passing(unit), doubting):
        none_may(stage, call, NotAuditor, but=[auditor])
        assert stage.chain.now().dispatch(call, Signed(auditor.provider)) == FREE


def test_an_auditor_that_was_silent_says_nothing_any_more() -> None:
    """Its seat was released after a fee: a late opinion would cost it nothing, and the next auditor its say."""
    stage = LeafChain()
    unit = stage.settled()
    first = stage.shown(unit)
    while stage.check(unit).auditor in (first.stash, None):
        stage.chain.block()
    doubting = LeafChecks.doubt_leaf(unit=unit, index=stage.check(unit).shown[0].index, found=NODE)
    stage.chain.block(*(refused(first.provider, call, NotAuditor) for call in (passing(unit), doubting)))


def test_only_the_customer_disputes_and_pays_for_the_call() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit, LeafStage.OPEN)
    call = stage.dispute_call(unit, 3, NODE)
    none_may(stage, call, NotBatchCustomer, but=[CUSTOMER])
    assert stage.chain.now().dispatch(call, Signed(CUSTOMER.stash)) != FREE


def test_nobody_says_anything_of_what_is_not_checked() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    calls = (
        stage.show_call(unit, unit=NODE), passing(NODE), LeafChecks.doubt_leaf(unit=NODE, index=0, found=NODE),
        stage.dispute_call(unit, 0, NODE, unit=NODE),
    )  # fmt: skip
    stage.chain.block(*(refused(CUSTOMER.stash, call, UnknownCheck) for call in calls))


def test_each_call_has_its_time() -> None:
    stage = LeafChain()
    unit = stage.settled()
    someone = stage.answerers(unit)[0]
    show = LeafChecks.show_leaves(unit=unit, totals=totals_of(stage.leaves[unit]), paths=())
    dispute = stage.dispute_call(unit, 3, NODE)
    # before the beacon
    stage.chain.block(refused(someone.provider, show, CheckWindowClosed))
    stage.chain.block(refused(CUSTOMER.stash, dispute, CheckWindowClosed))
    stage.until(unit, LeafStage.SHOWING)
    show = stage.show_call(unit)
    stage.chain.block(signed(someone.provider, show), refused(someone.provider, show, CheckWindowClosed))
    auditor = stage.auditor(unit)
    stage.chain.block(refused(someone.provider, show, CheckWindowClosed))
    stage.chain.block(refused(CUSTOMER.stash, dispute, CheckWindowClosed))
    stage.chain.block(stage.passes(unit, auditor), refused(auditor.provider, passing(unit), CheckWindowClosed))
    stage.until(unit, LeafStage.OPEN)
    stage.chain.block(signed(CUSTOMER.stash, dispute), refused(CUSTOMER.stash, dispute, CheckWindowClosed))


def test_whoever_is_asked_has_the_last_block_of_its_window_too() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    until_the_last_block(stage, unit)
    stage.chain.block(signed(stage.answerers(unit)[0].provider, stage.show_call(unit)))
    auditor = stage.auditor(unit)
    until_the_last_block(stage, unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit, LeafStage.OPEN)
    until_the_last_block(stage, unit)
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, 3, NODE)))
    assert stage.check(unit).stage is LeafStage.DOUBTED


def until_the_last_block(stage: LeafChain, unit: bytes) -> None:
    """Run until the next block is the last one of the open window."""
    while stage.chain.height < stage.check(unit).deadline - 1:
        stage.chain.block()


def test_a_window_that_is_over_is_over_though_no_block_had_room_to_look() -> None:
    stage = LeafChain()
    unit = stage.settled()
    check = stage.until(unit, LeafStage.SHOWING)
    assert check is not None
    while stage.chain.height < check.deadline:
        stage.chain.block()
    stage.chain.height += 1
    bound = stage.chain.begun()
    stage.chain.height -= 1
    with pytest.raises(CheckWindowClosed):
        bound.dispatch(stage.show_call(unit), Signed(stage.answerers(unit)[0].provider))


def test_nor_do_an_auditor_and_a_customer_have_longer_where_no_block_had_room() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    doubting = LeafChecks.doubt_leaf(unit=unit, index=stage.check(unit).shown[0].index, found=NODE)
    bound = begun_after_the_window(stage, unit)
    for call in (passing(unit), doubting):
        with pytest.raises(CheckWindowClosed):
            bound.dispatch(call, Signed(auditor.provider))
    stage = LeafChain()
    unit = stage.settled()
    stage.chain.block(stage.passes(unit, stage.shown(unit)))
    stage.until(unit, LeafStage.OPEN)
    bound = begun_after_the_window(stage, unit)
    with pytest.raises(CheckWindowClosed):
        bound.dispatch(stage.dispute_call(unit, 3, NODE), Signed(CUSTOMER.stash))


def begun_after_the_window(stage: LeafChain, unit: bytes) -> Bound:
    """Return the block after the open window, before its hooks."""
    while stage.chain.height < stage.check(unit).deadline:
        stage.chain.block()
    stage.chain.height += 1
    bound = stage.chain.begun()
    stage.chain.height -= 1
    return bound


def test_a_leaf_that_two_points_name_is_shown_twice_and_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_one(unit: bytes, requests: int, wrong: Collection[int] = ()) -> tuple[Leaf, ...]:
        first, *others = leaves_for(unit, requests, wrong)
        return (replace(first, tokens_out=400), *(replace(each, tokens_out=1) for each in others))

    monkeypatch.setattr("simulation.chains.batch_chain.leaves_for", of_one)
    stage = LeafChain()
    for _ in range(20):
        unit = stage.settled()
        stage.until(unit, LeafStage.SHOWING)
        drawn, auditor = stage.drawn(unit), stage.shown(unit)
        assert [leaf.index for leaf in stage.check(unit).shown] == list(dict.fromkeys(drawn))
        assert stage.chain.happened(LeavesShown)[-1].leaves == len(set(drawn))
        stage.chain.block(stage.passes(unit, auditor))
        stage.until(unit)
        assert stage.chain.happened(LeafCheckEnded)[-1].outcome is CheckOutcome.PASSED
        if len(set(drawn)) == 1:
            return
    raise AssertionError("never drawn twice")


def shown(stage: LeafChain, unit: bytes) -> tuple[LeafPath, ...]:
    return tuple(leaf_paths(stage.leaves[unit], stage.drawn(unit)))


def test_what_is_shown_is_what_was_drawn_of_what_was_settled() -> None:
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    right, totals = shown(stage, unit), totals_of(stage.leaves[unit])
    first, second = right
    assert first.index != second.index
    other = next(index for index in range(40) if index not in (first.index, second.index))
    wrong: list[tuple[Totals, tuple[LeafPath, ...]]] = [
        (totals, ()),
        (totals, (first,)),
        (totals, (first, second, second)),
        (totals, (second, first)),
        (totals, (stage.path(unit, other), second)),
        (totals, (replace(first, tokens_out=first.tokens_out + 1), second)),
        (totals, (replace(first, node=NODE), second)),
        (totals, (replace(first, siblings=first.siblings[:-1]), second)),
        (replace(totals, tokens_out=totals.tokens_out + 1), right),
        (replace(totals, requests=totals.requests - 1), right),
        (replace(totals, top=NODE), right),
    ]
    assert all(batch_root(given) == stage.unit(unit).output_root for given, _ in wrong[:8])
    calls = [stage.show_call(unit, totals=given, paths=paths) for given, paths in wrong]
    who = stage.answerers(unit)[0].provider
    stage.chain.block(*(refused(who, call, WrongLeaves) for call in calls), signed(who, stage.show_call(unit)))


def test_a_doubt_names_a_leaf_that_was_shown_and_another_node() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor, leaf = stage.shown(unit), stage.check(unit).shown[0]
    drawn = {each.index for each in stage.check(unit).shown}
    other = next(index for index in range(40) if index not in drawn)
    calls = [
        LeafChecks.doubt_leaf(unit=unit, index=index, found=found)
        for index, found in ((other, NODE), (40, NODE), (leaf.index, leaf.claim))
    ]
    stage.chain.block(*(refused(auditor.provider, call, NothingDoubted) for call in calls))


def test_a_dispute_names_a_leaf_of_the_result_and_another_node() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit, LeafStage.OPEN)
    totals, path = totals_of(stage.leaves[unit]), stage.path(unit, 3)
    wrong = [
        stage.dispute_call(unit, 3, NODE, path=replace(path, tokens_out=path.tokens_out + 1)),
        stage.dispute_call(unit, 3, NODE, path=replace(path, index=4)),
        stage.dispute_call(unit, 3, NODE, totals=replace(totals, tokens_out=totals.tokens_out + 1)),
    ]
    stage.chain.block(
        *(refused(CUSTOMER.stash, call, WrongLeaves) for call in wrong),
        refused(CUSTOMER.stash, stage.dispute_call(unit, 3, path_claim(path)), NothingDoubted),
    )


def test_the_tree_of_another_result_shows_nothing() -> None:
    """The tree is complete and consistent, from an honest provider, but it is not the paid result."""
    stage = LeafChain()
    unit = stage.settled(wrong=range(40))
    stage.until(unit, LeafStage.SHOWING)
    honest = leaves_for(unit, stage.requests)
    paths = tuple(leaf_paths(honest, stage.drawn(unit)))
    call = stage.show_call(unit, totals=totals_of(honest), paths=paths)
    stage.chain.block(refused(stage.answerers(unit)[0].provider, call, WrongLeaves))
