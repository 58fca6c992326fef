"""The status line for operators, every ten seconds."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from consensus.headers import TrustedBlock
from node.clock import Clock
from node.feed.view import final_age_ms
from node.monitoring.monitoring import CATCHING_UP, INTERVAL_MS, LAG_SLOTS_MAX, StatusLine

SLOT_MS = 1_000


class SetClock(Clock):
    """A clock that the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.set_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.set_ms


def seen(
    clock: SetClock, peers: int, validators: int = 4, proven: int = 0, checkpoint: TrustedBlock | None = None
) -> Any:
    """Return a node with `peers` peers and the present slot's block as final."""
    block = SimpleNamespace(height=7, slot=clock.set_ms // SLOT_MS)
    return SimpleNamespace(
        machine=SimpleNamespace(best=block, final=block, gadget_round=(0, 9)),
        chain=SimpleNamespace(
            parameters=SimpleNamespace(slot_ms=SLOT_MS, heartbeat_slots=1, skew_ms=500),
            rules=SimpleNamespace(checkpoint=checkpoint),
            epochs=lambda _: SimpleNamespace(validators=SimpleNamespace(members=range(validators))),
        ),
        network=SimpleNamespace(transport=SimpleNamespace(peers=lambda: range(peers))),
        sync=SimpleNamespace(sets_ahead=SimpleNamespace(proven_height=proven)),
        pools=SimpleNamespace(transactions=SimpleNamespace(queue=SimpleNamespace(ready_count=3, future_count=2))),
    )


@pytest.mark.parametrize(("peers", "validators", "warnings"), [(3, 4, 0), (0, 4, 1), (0, 1, 0)])
def test_f2_it_comes_when_due_and_a_node_without_peers_says_so(
    peers: int, validators: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = StatusLine(seen(clock, peers, validators), clock)
    with caplog.at_level(logging.INFO):
        line.write_if_due()
        assert not caplog.messages
        clock.set_ms += INTERVAL_MS
        line.write_if_due()
    assert caplog.records[0].args == (peers, 7, 7, "10 slots ago", 3, 2)
    assert len(caplog.messages) == 1 + warnings


@pytest.mark.parametrize(("proven", "lines"), [(7, 1), (8, 2)])
def test_while_it_catches_up_it_says_how_far_the_chain_is_proven(
    proven: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = StatusLine(seen(clock, 3, proven=proven), clock)
    clock.set_ms += INTERVAL_MS
    with caplog.at_level(logging.INFO):
        line.write_if_due()
    assert [(record.msg, record.args) for record in caplog.records[1:]] == [(CATCHING_UP, (8,))][: lines - 1]


@pytest.mark.parametrize("behind_s", [0, 1, 3_600, 1_700_000_000 - 12])
def test_a_clock_behind_the_final_block_is_a_warning(behind_s: int, caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    clock.set_ms -= behind_s * 1_000 + INTERVAL_MS
    line = StatusLine(view, clock)
    clock.set_ms += INTERVAL_MS
    with caplog.at_level(logging.INFO):
        line.write_if_due()
    assert [record.levelname for record in caplog.records] == ["INFO"] + ["WARNING"] * (behind_s > 0)
    assert all((f"{behind_s:,} s " in message) == (behind_s > 0) for message in caplog.messages)
    assert final_age_ms(view, clock.set_ms) == -behind_s * 1_000


@pytest.mark.parametrize(("behind_ms", "seconds"), [(1, 0), (500, 0), (501, 1), (1_000, 1), (1_001, 2)])
def test_a_clock_may_differ_by_the_skew_that_the_chain_allows(
    behind_ms: int, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    clock.set_ms -= behind_ms + INTERVAL_MS
    line = StatusLine(view, clock)
    clock.set_ms += INTERVAL_MS
    with caplog.at_level(logging.INFO):
        line.write_if_due()
    assert len(caplog.records) == 1 + bool(seconds)
    assert all((f"{seconds} s " in message) == bool(seconds) for message in caplog.messages)
    assert ("slots ago" in caplog.messages[0]) == (not seconds)


def test_a_chain_that_has_not_begun_is_no_matter_of_clocks(caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    view.machine.final = SimpleNamespace(height=0, slot=2**40)
    line = StatusLine(view, clock)
    clock.set_ms += INTERVAL_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    assert not caplog.messages


def test_f2_finality_that_stands_still_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    line = StatusLine(seen(clock, 3), clock)
    clock.set_ms += (LAG_SLOTS_MAX + 2) * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    assert [record.args for record in caplog.records] == [(12, "too few votes arrive, or this node lags")]


@pytest.mark.parametrize("height", [7, 8])
def test_below_a_checkpoint_it_says_that_the_checkpoint_may_be_wrong(
    height: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = StatusLine(seen(clock, 3, checkpoint=TrustedBlock(height, b"c" * 32)), clock)
    clock.set_ms += (LAG_SLOTS_MAX + 2) * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    (message,) = caplog.messages
    named = f"#{height} 0x{'63' * 32} is not reached" in message and "ask a second source" in message
    assert named == (height == 8), "it is reached by block 7"
