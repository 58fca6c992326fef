"""A provider that leaves withdraws its bond once the chain frees it, not when the unbonding time is over."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from cli.chain_time import ChainTime
from gpu_tasks.provider import registration
from runtime.interface.staking_api import StakeSummary, WaitingStake
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

STASH, FINAL = b"s" * 32, b"f" * 32
TIME = ChainTime(301, 1_700_000_040_000, 60_000, 60, 60, 1)  # the first block of epoch 5


class LeftClient:
    """The client of a stash without offers, with a partly free bond."""

    def __init__(self, *waiting: WaitingStake, withdrawable: int) -> None:
        self.summary = StakeSummary((), waiting, withdrawable, ())

    async def finalized(self) -> bytes:
        return FINAL

    async def read(self, item: Any, *_: Any) -> Any:
        return 0 if item is TrustStake.bonds else None

    async def query(self, name: str, stash: bytes, at: bytes | None = None) -> StakeSummary:
        assert (name, stash, at in {None, FINAL}) == ("OgpuApi_stakes", STASH, True)
        return self.summary


KEPT = WaitingStake(STASH, 70, 4, is_held=True)
FREE = WaitingStake(STASH, 30, 3, is_held=False)
LATER = WaitingStake(STASH, 5, 9, is_held=False)


@pytest.mark.parametrize(
    ("waiting", "withdrawable", "calls"),
    [((KEPT, LATER), 0, []), ((FREE, KEPT), 30, [TrustStake.withdraw_unbonded()]), ((), 0, [])],
)
def test_a_bond_is_withdrawn_once_it_is_free(
    waiting: tuple[WaitingStake, ...], withdrawable: int, calls: list[Any]
) -> None:
    client = cast("ChainClient", LeftClient(*waiting, withdrawable=withdrawable))
    assert asyncio.run(registration.withdrawal_calls(client, STASH)) == calls


def test_what_waits_is_told_with_the_first_and_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "read_time", AsyncMock(return_value=TIME))
    client = cast("ChainClient", LeftClient(LATER, KEPT, FREE, withdrawable=30))
    facts = asyncio.run(registration.unbonding_facts(client, STASH))
    assert [facts[name] for name in ("unlocking", "free_now", "epoch")] == [105, 30, 5]
    assert [facts[name] for name in ("free_from_epoch", "all_free_from_epoch")] == [3, 9]
    assert [facts[name] for name in ("free_from", "all_free_from")] == [TIME.date_of(3), TIME.date_of(9)]
    assert asyncio.run(registration.unbonding_facts(cast("ChainClient", LeftClient(withdrawable=0)), STASH)) == {}
