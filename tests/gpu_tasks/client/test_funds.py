"""What an account can spend, and the refusal where that is too little."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.funds import FundsError, require, spendable


@pytest.mark.parametrize(
    ("free", "reserved", "frozen", "left"), [(9, 0, 0, 9), (9, 0, 4, 5), (9, 3, 4, 8), (9, 5, 4, 9), (2, 0, 4, 0)]
)
def test_what_is_frozen_is_covered_by_what_is_reserved_first(free: int, reserved: int, frozen: int, left: int) -> None:
    async def read(*_: Any) -> Any:
        return SimpleNamespace(data=SimpleNamespace(free=free, reserved=reserved, frozen=frozen))

    assert asyncio.run(spendable(SimpleNamespace(read=read), bytes(32))) == left  # type: ignore[arg-type]


def test_all_that_there_is_may_be_spent_and_no_grain_more() -> None:
    require(5, 5, "this")
    with pytest.raises(FundsError, match=r"can spend 0\.00000005 oGPU, and this takes 0\.00000006"):
        require(5, 6, "this")
