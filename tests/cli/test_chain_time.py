"""Dates of epochs: reckoned from a final block at the pace of those before it, in UTC, and never a crash."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.chain_time import PACE_BLOCKS, YEAR_MS, ChainTime, date_text, read_time
from genesis.chain import runtime_of
from genesis.presets import load_spec
from wallet.client import ChainClient
from wallet.rpc import RpcError

NOW = 1_700_000_040_000  # 2023-11-14 22:14:00 UTC


def at(height: int, *, passed_ms: int = 48_000, passed_blocks: int = 48, era_epochs: int = 1) -> ChainTime:
    return ChainTime(height, NOW, passed_ms, passed_blocks, 60, era_epochs)


@pytest.mark.parametrize(
    ("height", "epoch", "era"), [(0, 0, 0), (1, 0, 0), (60, 0, 0), (61, 1, 0), (120, 1, 0), (121, 2, 1), (241, 4, 2)]
)
def test_which_epoch_and_era_it_is(height: int, epoch: int, era: int) -> None:
    assert (at(height, era_epochs=2).epoch, at(height, era_epochs=2).era) == (epoch, era)


@pytest.mark.parametrize(
    ("height", "epoch", "passed_ms", "text"),
    [
        (60, 1, 48_000, "2023-11-14 22:14 UTC"),
        (1, 1, 48_000, "2023-11-14 22:15 UTC"),
        (1, 6, 48_000, "2023-11-14 22:20 UTC"),
        (1, 6, 96_000, "2023-11-14 22:26 UTC"),
        (61, 0, 48_000, "2023-11-14 22:13 UTC"),
    ],
)
def test_when_an_epoch_begins(height: int, epoch: int, passed_ms: int, text: str) -> None:
    assert at(height, passed_ms=passed_ms).epoch_text(epoch) == f"epoch {epoch}, about {text}"


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 48), st.integers(0, 10**4))
def test_the_present_block_lies_between_its_epoch_and_the_next(height: int, ms: int, blocks: int, more: int) -> None:
    time = at(height, passed_ms=ms, passed_blocks=blocks)
    if height:
        assert time.begin_ms(time.epoch) <= NOW <= time.begin_ms(time.epoch + 1)
    assert time.begin_ms(more) <= time.begin_ms(more + 1)


def test_words() -> None:
    time = at(121, passed_ms=72_000, era_epochs=2)
    assert time.present_text == "epoch 2 of era 1, 2023-11-14 22:14 UTC"
    assert time.era_text(3) == "era 3 (epoch 6, about 2023-11-14 22:20 UTC)"
    assert time.pace_text == "1.5 s a block, as the last 48 took"


@pytest.mark.parametrize(
    ("block", "text"),
    [(100, "now"), (101, "in about 2 s"), (160, "in about 2 min"), (40, "about 2 min ago"), (100_000, "in about 2 d")],
)
def test_how_far_a_block_is(block: int, text: str) -> None:
    time = at(100, passed_ms=96_000)
    assert time.distance_text(block) == text
    assert time.timed(f"due by block {block}.") == f"due by block {block} ({text})."


@pytest.mark.parametrize("text", ["", "the block", "20 blocks", "blocks 7 to 8", f"block {10**11}", "block 0x12"])
def test_a_text_that_names_no_block_stays(text: str) -> None:
    assert at(100).timed(text) == text


def test_a_year_has_whole_eras_at_this_pace() -> None:
    assert at(100).eras_of_a_year == YEAR_MS // 60_000
    assert at(100, passed_ms=96_000, era_epochs=24).eras_of_a_year == YEAR_MS // (2_000 * 60 * 24)
    assert at(100, passed_ms=10**18).eras_of_a_year == 0
    assert ChainTime(100, NOW, 1, 48, 3, 1).eras_of_a_year == 2**32 - 1


@pytest.mark.parametrize("time_ms", [10**18, -(10**18), 2**64 - 1])
def test_a_time_beyond_the_calendar_is_said_in_a_word(time_ms: int) -> None:
    assert date_text(time_ms) == "never"


class TimedNode:
    """A client whose blocks come every two seconds, of which it shows the states from `oldest` on."""

    def __init__(self, height: int, oldest: int) -> None:
        self.runtime = runtime_of(load_spec("dev"))
        self._height, self._oldest = height, oldest
        self.asked: list[int] = []

    async def height(self, at: bytes) -> int:
        return self._height

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        assert first == last
        return [first.to_bytes(4, "big")]

    async def read(self, _item: Any, at: bytes) -> int:
        height = int.from_bytes(at, "big") if at else self._height
        self.asked.append(height)
        if height < self._oldest:
            raise RpcError(4003, "State already discarded")
        return NOW + 2_000 * (height - self._height)


@pytest.mark.parametrize(
    ("height", "oldest", "passed"),
    [
        (1_000, 0, (2_000 * PACE_BLOCKS, PACE_BLOCKS)),
        (11, 0, (20_000, 10)),
        (1_000, 990, (1_000, 1)),  # a slot of the development chain
        (1, 0, (1_000, 1)),
        (0, 0, (1_000, 1)),
    ],
)
def test_the_pace_is_measured_where_the_node_shows_it(height: int, oldest: int, passed: tuple[int, int]) -> None:
    node = TimedNode(height, oldest)
    time = asyncio.run(read_time(cast("ChainClient", node), b""))
    assert (time.passed_ms, time.passed_blocks) == passed
    assert (time.height, time.now_ms, time.epoch_blocks, time.era_epochs) == (height, NOW, 60, 1)
    assert all(asked >= height - PACE_BLOCKS for asked in node.asked)


def test_blocks_of_one_time_are_no_division_by_zero() -> None:
    client = SimpleNamespace(
        runtime=runtime_of(load_spec("dev")), height=answer(50), read=answer(NOW), final_ids=answer([b"x"])
    )
    assert asyncio.run(read_time(cast("ChainClient", client), b"")).eras_of_a_year > 0


def answer(value: Any) -> Any:
    async def given_value(*_: Any, **__: Any) -> Any:
        return value

    return given_value
