"""The status line for operators, every ten seconds."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from consensus.headers import TrustedBlock
from consensus.validators import Validator, ValidatorSet
from node.clock import Clock
from node.feed.view import final_age_ms
from node.monitoring.figures import IMPORTS_MIN, ImportWatch
from node.monitoring.monitoring import BLOCKS_LATE, CATCHING_UP, INTERVAL_MS, LAG_SLOTS_MAX, StatusLine
from runtime.cryptography import ss58

SLOT_MS = 1_000
OWN_SESSION = b"o" * 32


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
    members = tuple(
        Validator(bytes([index]) * 32, bytes([64 + index]) * 32, b"v" * 32, 10) for index in range(validators)
    )
    return SimpleNamespace(
        machine=SimpleNamespace(best=block, final=block, gadget_round=(0, 9), unheard=lambda: members[2:]),
        chain=SimpleNamespace(
            final=SimpleNamespace(facts=block),
            parameters=SimpleNamespace(slot_ms=SLOT_MS, heartbeat_slots=1, skew_ms=500),
            rules=SimpleNamespace(checkpoint=checkpoint),
            epochs=lambda _: SimpleNamespace(validators=ValidatorSet(0, members)),
        ),
        network=SimpleNamespace(transport=SimpleNamespace(peers=lambda: range(peers))),
        sync=SimpleNamespace(sets_ahead=SimpleNamespace(proven_height=proven)),
        pools=SimpleNamespace(transactions=SimpleNamespace(queue=SimpleNamespace(ready_count=3, future_count=2))),
    )


def plain_line(view: Any, clock: SetClock) -> StatusLine:
    return StatusLine(view, clock, ImportWatch(view.chain, clock, ()))


def line_of(view: Any, clock: SetClock, *arrived: tuple[int, int, bytes]) -> StatusLine:
    """Return the line of a node with these blocks: height, delay in ms, author."""
    imports = ImportWatch(view.chain, clock, (OWN_SESSION,))
    line = StatusLine(view, clock, imports)
    clock.set_ms += INTERVAL_MS
    for height, late_ms, author in arrived:
        slot = (clock.set_ms - late_ms) // SLOT_MS
        block: Any = SimpleNamespace(facts=SimpleNamespace(height=height, slot=slot, author=author))
        imports.on_imported(block)
    return line


@pytest.mark.parametrize(("peers", "validators", "warnings"), [(3, 4, 0), (0, 4, 1), (0, 1, 0)])
def test_f2_it_comes_when_due_and_a_node_without_peers_says_so(
    peers: int, validators: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = plain_line(seen(clock, peers, validators), clock)
    with caplog.at_level(logging.INFO):
        line.write_if_due()
        assert not caplog.messages
        clock.set_ms += INTERVAL_MS
        line.write_if_due()
    assert caplog.records[0].args == (peers, 7, 7, "10 slots ago", 3, 2)
    assert len(caplog.messages) == 1 + warnings


@pytest.mark.parametrize(
    ("proven", "heights", "shown"),
    [
        (7, [], None),
        (9, [9], None),
        (8, [], (7, 8, "")),
        (1_007, [8, 27], (27, 1_007, ", 2.0 blocks/s, about 8 min left")),
        (400_007, [8, 27], (27, 400_007, ", 2.0 blocks/s, about 2 d left")),
    ],
)
def test_while_it_catches_up_it_shows_its_pace_and_the_time_left(
    proven: int, heights: list[int], shown: tuple[Any, ...] | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = line_of(seen(clock, 3, proven=proven), clock, *((height, 0, b"a" * 32) for height in heights))
    with caplog.at_level(logging.INFO):
        line.write_if_due()
    assert [(record.msg, record.args) for record in caplog.records[1:]] == ([(CATCHING_UP, shown)] if shown else [])


@pytest.mark.parametrize("imported", [0, 1])
def test_a_node_that_catches_up_does_not_warn_that_nothing_is_final(
    imported: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    view = seen(clock, 3, checkpoint=TrustedBlock(90, b"c" * 32))
    clock.set_ms += 2 * SLOT_MS
    view.machine.final.slot -= 4
    line = line_of(view, clock, *[(8, 0, b"a" * 32)] * imported)
    clock.set_ms += LAG_SLOTS_MAX * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    assert len(caplog.records) == 1 - imported


@pytest.mark.parametrize(
    ("late_ms", "count", "author", "warns"),
    [
        (5_000, IMPORTS_MIN, b"a" * 32, True),
        (1_000, IMPORTS_MIN, b"a" * 32, False),
        (5_000, IMPORTS_MIN - 1, b"a" * 32, False),
        (600_000, IMPORTS_MIN, b"a" * 32, False),
        (5_000, IMPORTS_MIN, OWN_SESSION, False),
    ],
)
def test_blocks_that_all_come_late_point_to_the_clock(
    late_ms: int, count: int, author: bytes, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    # An own block comes at once by the own clock, however wrong that is.
    blocks = [*[(8, late_ms, author)] * count, (8, 0, OWN_SESSION)]
    line = line_of(seen(clock, 3), clock, *blocks)
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    assert [(record.msg, record.args) for record in caplog.records] == [(BLOCKS_LATE, ("5 s",))] * warns
    clock.set_ms += INTERVAL_MS
    caplog.clear()
    line.write_if_due()
    assert BLOCKS_LATE not in [record.msg for record in caplog.records], "it looks at the blocks since the last line"


@pytest.mark.parametrize("behind_s", [0, 1, 3_600, 1_700_000_000 - 12])
def test_a_clock_behind_the_final_block_is_a_warning(behind_s: int, caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    clock.set_ms -= behind_s * 1_000 + INTERVAL_MS
    line = plain_line(view, clock)
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
    line = plain_line(view, clock)
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
    line = plain_line(view, clock)
    clock.set_ms += INTERVAL_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    assert not caplog.messages


def test_f2_finality_that_stands_still_names_the_validators_whose_votes_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    line = line_of(view, clock)
    clock.set_ms += 2 * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    records: list[Any] = list(caplog.records)
    ((slots, why),) = [record.args for record in records]
    assert slots == LAG_SLOTS_MAX + 2
    assert all(part in why for part in ("2 of 4", "50.0 %", ss58.encode(b"\x02" * 32), ss58.encode(b"\x03" * 32)))
    assert ss58.encode(b"\x01" * 32) not in why
    view.machine.unheard = lambda: ()
    clock.set_ms += INTERVAL_MS
    line.write_if_due()
    assert "%" not in caplog.messages[-1]


def test_of_many_silent_validators_those_with_the_most_stake_are_named(caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    view = seen(clock, 3)
    members = tuple(Validator(bytes([index]) * 32, bytes([64 + index]) * 32, b"v" * 32, index) for index in range(1, 9))
    view.chain.epochs = lambda _: SimpleNamespace(validators=ValidatorSet(0, members))
    view.machine.unheard = lambda: members[:-1]
    line = line_of(view, clock)
    clock.set_ms += 2 * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    (message,) = caplog.messages
    assert [index for index in range(1, 9) if ss58.encode(bytes([index]) * 32) in message] == [3, 4, 5, 6, 7]
    assert "77.8 %" in message


@pytest.mark.parametrize("height", [7, 8])
def test_below_a_checkpoint_it_says_that_the_checkpoint_may_be_wrong(
    height: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock()
    line = plain_line(seen(clock, 3, checkpoint=TrustedBlock(height, b"c" * 32)), clock)
    clock.set_ms += (LAG_SLOTS_MAX + 2) * SLOT_MS
    with caplog.at_level(logging.WARNING):
        line.write_if_due()
    (message,) = caplog.messages
    named = f"#{height} 0x{'63' * 32} is not reached" in message and "ask a second source" in message
    assert named == (height == 8), "it is reached by block 7"
