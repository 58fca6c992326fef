"""A provider's pay beside its work: found in the block that paid it, and nothing else counted."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import pytest

from gpu_tasks.market.training.tasks import BID_BOND, TASK_ESCROW, Slot, Standby, slot_case
from gpu_tasks.provider.chain import side_pay
from gpu_tasks.provider.chain.side_pay import (
    LOOKED_BACK_MAX,
    OVERLAP_BLOCKS,
    SidePayment,
    _last_end,
    is_standing_by,
    share_paid,
    side_payments,
)
from priced_tasks import a_task
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.market_chain import OGPU
from task_chain import net
from wallet.client import ChainClient

ME, OTHER, TASK = b"m" * 32, b"o" * 32, b"t" * 32
SLOT = Slot(OTHER, b"d" * 32, 5 * OGPU, 50, 100)
SHARE = net(5 * OGPU // 50)
RIGHT = Paid(b"c" * 32, TASK_ESCROW, slot_case(TASK, 0), ME, SHARE)


@pytest.mark.parametrize(
    ("paid", "grains"),
    [
        (RIGHT, SHARE),
        (replace(RIGHT, amount=SHARE + 1), 0),  # of its work
        (replace(RIGHT, payee=OTHER), 0),
        (replace(RIGHT, payee=None), 0),
        (replace(RIGHT, reason=BID_BOND), 0),
        (replace(RIGHT, case=slot_case(TASK, 1)), 0),
        (replace(RIGHT, case=slot_case(b"x" * 32, 0)), 0),
    ],
)
def test_only_the_share_of_a_slot_of_the_task_is_for_standing_by(paid: Paid, grains: int) -> None:
    before = a_task(slots=(SLOT,))
    assert share_paid(before, TASK, ME, [object(), paid]) == grains
    assert share_paid(before, TASK, ME, [replace(RIGHT, amount=SHARE - 1), paid]) == grains


def test_who_stands_by_is_bound_or_took_over_and_has_not_begun() -> None:
    standby = Standby(ME, b"d" * 32, 5, 50, 100)
    assert is_standing_by(a_task(slots=(SLOT,), standby=standby), ME)
    assert not is_standing_by(a_task(slots=(SLOT,), standby=standby), OTHER)
    assert not is_standing_by(a_task(slots=(SLOT,), standby=replace(standby, is_bound=False)), ME)
    assert is_standing_by(a_task(slots=(replace(SLOT, provider=ME, was_standby=True),)), ME)
    assert not is_standing_by(a_task(slots=(replace(SLOT, provider=ME),)), ME)


def there(text: str) -> Callable[[bytes], Awaitable[bool]]:
    """Return a test of presence after the block at each place."""

    async def is_there(at: bytes) -> bool:
        return text[at[0]] == "x"

    return is_there


@pytest.mark.parametrize(
    ("text", "end"),
    [("xx.", 2), ("x..", 1), (".x.", 2), ("x.x.", 3), ("...", None), ("xxx", None), ("..x", None), ("", None)],
)
def test_an_end_is_the_last_one_and_none_where_it_was_never_there_or_still_is(text: str, end: int | None) -> None:
    ids = [bytes((place,)) for place in range(len(text))]
    assert asyncio.run(_last_end(ids, there(text))) == end


class Blocks:
    """Final blocks up to a height, with their heights as ids, and with a runner-up's place until some block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int, gone_in: int) -> None:
        self.last = last
        self.gone_in = gone_in
        self.asked: list[tuple[int, int]] = []
        monkeypatch.setattr(side_pay, "_stands_by", self._is_there)
        monkeypatch.setattr(side_pay, "_share", self._paid)

    async def finalized(self) -> bytes:
        return b"final"

    async def height(self, _: bytes) -> int:
        return self.last

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        self.asked.append((first, last))
        return [bytes((height,)) for height in range(first, last + 1)]

    async def _is_there(self, _client: object, _stash: bytes, _name: bytes, at: bytes) -> bool:
        return at[0] < self.gone_in

    async def _paid(self, _client: object, _stash: bytes, _name: bytes, before: bytes, block: bytes) -> int:
        return 1_000 * before[0] + block[0]

    def told(self, since: int) -> dict[bytes, SidePayment]:
        return asyncio.run(side_payments(cast(ChainClient, self), ME, [TASK], since))


def test_a_payment_is_of_the_block_behind_which_the_place_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks(monkeypatch, 100, gone_in=95)
    paid = SidePayment(95, 94_095)  # by the state before that block, and by its events
    assert blocks.told(94) == {TASK: paid}
    assert Blocks(monkeypatch, 100, gone_in=101).told(94) == {}, "it is there"


def test_it_is_looked_for_a_little_before_what_was_seen_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks(monkeypatch, 100, gone_in=93)
    assert blocks.told(94)[TASK] == SidePayment(93, 92_093), "the view was a block ahead of its places"
    assert blocks.told(1)[TASK] == SidePayment(93, 92_093)
    assert blocks.asked == [(94 - OVERLAP_BLOCKS, 100), (100 - LOOKED_BACK_MAX, 100)]
    assert Blocks(monkeypatch, 5, gone_in=3).told(1)[TASK].block == 3
