"""The duties of a stash that its daemon sees if there are more than the limit: the most expensive to miss."""

from dataclasses import replace

import pytest

from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafDuty, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.leaf_checks_api import CHECKS_SHOWN_MAX, KEYS_READ_MAX, CheckStatus, LeafChecksApi
from node.rpc.methods.state import MAX_CALL_KEYS
from runtime.frame.api import Apis
from runtime.state.overlay import RecordedReads
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import GENESIS_HASH

STASH = b"s" * 32
LATE = 9_000


def dust(number: int) -> bytes:
    """Return a unit whose id sorts before the important ones."""
    return number.to_bytes(4, "big").ljust(32, b"\0")


def seen(planted: dict[bytes, tuple[LeafDuty, int]]) -> tuple[CheckStatus, ...]:
    """Return the duties with deadlines in a proved call, by unit."""
    stage = LeafChain()
    unit = stage.settled()
    some = stage.until(unit, LeafStage.SHOWING)
    assert isinstance(some, LeafCheck)
    bound = stage.chain.now()
    room = bound[LeafChecks]
    for name, (duty, deadline) in planted.items():
        room.duties[STASH, name] = duty
        room.checks[name] = replace(some, deadline=deadline)
    reads = RecordedReads(stage.chain.state.updated(bound.overlay.changes()), MAX_CALL_KEYS)
    apis = Apis(stage.chain.runtime, (LeafChecksApi,))
    raw = apis.call(reads, GENESIS_HASH, "LeafChecksApi_duties", STASH)
    found: tuple[CheckStatus, ...] = apis.methods["LeafChecksApi_duties"].output.decode(raw)
    return found


@pytest.mark.parametrize("flood", [CHECKS_SHOWN_MAX + 200, 3_000])
def test_a_flood_of_audits_hides_nothing_that_costs_more(flood: int) -> None:
    own = {b"\xff" * 31 + bytes([number]): duty for number, duty in enumerate((LeafDuty.STAND, LeafDuty.SHOW))}
    planted = {dust(number): (LeafDuty.AUDIT, 5) for number in range(flood)}
    planted |= {unit: (duty, LATE) for unit, duty in own.items()}
    units = [status.unit for status in seen(planted)]
    assert len(units) == CHECKS_SHOWN_MAX
    assert units[:2] == sorted(own, key=own.__getitem__)
    assert set(units[2:]) <= {dust(number) for number in range(flood)}


def test_of_more_audits_than_are_shown_those_come_first_that_end_first() -> None:
    """A stranger chooses the length of audits of its dust. Other customers' audits end earlier."""
    planted = {dust(number): (LeafDuty.AUDIT, LATE + number) for number in range(KEYS_READ_MAX // 2 - 1)}
    planted |= {b"\xff" * 32: (LeafDuty.AUDIT, 40)}
    found = seen(planted)
    assert [status.check.deadline for status in found] == [40, *range(LATE, LATE + CHECKS_SHOWN_MAX - 1)]


def test_each_duty_is_told_for_what_it_is() -> None:
    """From the draw to a judged leaf. The books of every test count them too."""
    stage = LeafChain()
    unit = stage.settled()
    stage.until(unit, LeafStage.SHOWING)
    duties = {who: duty for (who, _), duty in stage.chain.now()[LeafChecks].duties.items()}
    answerers = [keys.stash for keys in stage.answerers(unit)]
    assert duties == dict.fromkeys(answerers, LeafDuty.SHOW)
    auditor = stage.shown(unit)
    duties = {who: duty for (who, _), duty in stage.chain.now()[LeafChecks].duties.items()}
    assert duties == {auditor.stash: LeafDuty.AUDIT}
    index = stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index, is_right=False)))
    duties = {who: duty for (who, _), duty in stage.chain.now()[LeafChecks].duties.items()}
    assert duties == dict.fromkeys([*answerers, auditor.stash], LeafDuty.STAND)
