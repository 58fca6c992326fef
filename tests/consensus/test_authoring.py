"""The final reference in an author's block: the newest final block, but never past the end of an epoch."""

from dataclasses import replace

import pytest

from consensus.certificates import Certificate
from consensus.events import BlockFacts
from consensus.headers import HeaderRules, InvalidHeaderError, proposer
from consensus.machine import choose_reference, plan_block
from consensus.parameters import DEVNET, MAINNET, Parameters
from consensus_parts import GENESIS, certificate, epochs_of
from devnet.simulation.keys import verify_fake
from runtime.blocks.votes import Ballot, BallotKind

TINY = replace(DEVNET, epoch_blocks=3)


def final_at(height: int, parameters: Parameters = DEVNET) -> Certificate:
    epoch = parameters.epoch_of(height)
    return certificate(Ballot(BallotKind.FINALISE, epoch, 9, height, height.to_bytes(32, "big")), 4, range(3))


def tip_at(height: int, referenced: int) -> BlockFacts:
    return BlockFacts(b"t" * 32, b"p" * 32, height, height, b"a" * 32, referenced)


def boundary_of(epoch: int) -> Certificate:
    return final_at(DEVNET.boundary(epoch))


@pytest.mark.parametrize(
    ("referenced", "final", "named"),
    [
        (10, 59, 59),
        (10, 60, 60),
        (10, 61, 60),
        (59, 110, 60),
        (60, 110, 110),
        (60, 60, None),
        (70, 60, None),
        (70, 119, 119),
        (70, 121, 120),
    ],
)
def test_the_boundary_is_named_first(referenced: int, final: int, named: int | None) -> None:
    reference = choose_reference(DEVNET, tip_at(final + 5, referenced), final_at(final), boundary_of)
    assert (None if reference is None else reference.height) == named


def test_a_boundary_that_is_not_known_is_left_to_others() -> None:
    assert choose_reference(DEVNET, tip_at(80, 10), final_at(70), lambda _: None) is None
    named = choose_reference(DEVNET, tip_at(80, 10), final_at(60), lambda _: None)
    assert named is not None, "the newest final block is the boundary itself"
    assert named.height == 60


def test_no_block_ends_an_epoch_before_the_one_before_is_named() -> None:
    """Otherwise the next epoch's first block would have to name two boundaries, or no block could ever be built."""
    epoch = epochs_of(4)(1)
    for referenced, builds in ((59, False), (60, True)):
        tip = tip_at(119, referenced)
        slot = next(
            slot for slot in range(1_000, 1_100) if proposer(epoch, slot) == epoch.validators.members[0].session
        )
        plan = plan_block(
            DEVNET, epochs_of(4), lambda _: epoch.validators.members[0].session, slot, 0, tip, 0, None, lambda _: None
        )
        assert (plan is not None) == builds


@pytest.mark.parametrize("parameters", [TINY, DEVNET, MAINNET], ids=["tiny", "devnet", "mainnet"])
def test_wherever_finality_stood_still_a_block_can_be_built_once_it_goes_on(parameters: Parameters) -> None:
    """Check every (tip, named height) that the rules allow: with the tip final, another block is possible."""
    length = parameters.epoch_blocks
    reachable = {(0, 0)}
    frontier = [(0, 0)]
    steps = range(4 * length) if length < 100 else ()
    while frontier and steps:
        height, referenced = frontier.pop()
        if height >= steps[-1]:
            continue
        limit = parameters.reference_max(referenced)
        possible = {referenced, min(height, limit), min(max(referenced, height - 1), limit)}
        following = {(height + 1, named) for named in possible if named >= parameters.referenced_min(height + 1)}
        assert min(height, limit) >= parameters.referenced_min(height + 1), (height, referenced)
        frontier.extend(following - reachable)
        reachable |= following
    for referenced in range(0, 4 * length, 97):
        for height in range(referenced, referenced + parameters.final_lag_max):
            if referenced >= parameters.referenced_min(height):
                assert min(height, parameters.reference_max(referenced)) >= parameters.referenced_min(height + 1)


def test_headers_refuse_what_passes_over_a_boundary() -> None:
    rules = HeaderRules(DEVNET, epochs_of(4), GENESIS, verify_fake)
    parent = tip_at(70, 50)
    epoch = epochs_of(4)(1)
    for height, is_valid in ((59, True), (60, True), (61, False), (70, False)):
        reference = choose_reference(
            DEVNET, replace(parent, referenced_height=height - 1), final_at(height), boundary_of
        )
        facts = BlockFacts(b"n" * 32, parent.id, 71, 90, proposer(epoch, 90), height, reference)
        if is_valid:
            rules.check_facts(facts, parent, lambda at: at.to_bytes(32, "big"), 100_000)
        else:
            with pytest.raises(InvalidHeaderError, match="skips the end"):
                rules.check_facts(facts, parent, lambda at: at.to_bytes(32, "big"), 100_000)


def slot_of_ours(first: int) -> int:
    epoch = epochs_of(4)(0)
    return next(
        slot for slot in range(first, first + 100) if proposer(epoch, slot) == epoch.validators.members[0].session
    )


@pytest.mark.parametrize(
    ("built_before", "tip_before", "processing", "builds"),
    [
        (1, 1, 0, True),
        (0, 1, 0, False),
        (1, 0, 0, False),
        (1, 1, DEVNET.processing_max - 1, True),
        (1, 1, DEVNET.processing_max, False),
    ],
    ids=["a slot later", "slot used", "slot of the tip", "room for one more", "pipeline full"],
)
def test_one_block_a_slot_after_the_tips_and_no_more_undecided_ones_than_the_pipeline_holds(
    built_before: int, tip_before: int, processing: int, *, builds: bool
) -> None:
    slot = slot_of_ours(100)
    tip = BlockFacts(b"t" * 32, b"p" * 32, 5, slot - tip_before, b"a" * 32, 0)
    session = epochs_of(4)(0).validators.members[0].session
    request = plan_block(
        DEVNET, epochs_of(4), lambda _: session, slot, slot - built_before, tip, processing, None, lambda _: None
    )
    assert (request is not None) == builds


@pytest.mark.parametrize(("late", "is_heartbeat"), [(1, False), (2, True), (3, True)])
def test_a_heartbeat_comes_when_so_many_slots_went_by(late: int, *, is_heartbeat: bool) -> None:
    slot = slot_of_ours(100)
    tip = BlockFacts(b"t" * 32, b"p" * 32, 5, slot - late, b"a" * 32, 0)
    session = epochs_of(4)(0).validators.members[0].session
    parameters = replace(DEVNET, heartbeat_slots=2)
    request = plan_block(parameters, epochs_of(4), lambda _: session, slot, 0, tip, 0, None, lambda _: None)
    assert request is not None
    assert request.heartbeat == is_heartbeat


@pytest.mark.parametrize(
    ("has_key", "is_determined", "builds"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_the_first_block_of_an_epoch_needs_the_key_and_the_validators_of_that_epoch(
    *, has_key: bool, is_determined: bool, builds: bool
) -> None:
    epoch = epochs_of(4)(1)
    slot = next(slot for slot in range(100, 200) if proposer(epoch, slot) == epoch.validators.members[0].session)
    plan = plan_block(
        DEVNET,
        {1: epoch if is_determined else None}.__getitem__,
        {0: b"former", 1: epoch.validators.members[0].session if has_key else None}.__getitem__,
        slot,
        0,
        tip_at(60, 60),
        0,
        None,
        lambda _: None,
    )
    assert (plan is not None) == builds
