"""Losses of a provider's bonds, computed from the events and the states of blocks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.bond_losses import BondLoss, bond_losses
from wallet.rpc import RpcError

STASH, OTHER = b"s" * 32, b"o" * 32
MISSED, LEAVES, WHOLE, OLD = (bytes([number]) * 32 for number in range(4))
LEAF_CASE, FOREIGN_CASE = b"l" * 32, b"f" * 32
FIRST_DEVICE, SECOND_DEVICE, NEXT_DEVICE = (bytes([number]) * 32 for number in range(7, 10))
SINCE, LAST = 5, 12


def ended(case: bytes) -> CaseEnded:
    return CaseEnded(case, CaseOutcome.DECIDED, None)


def slashed(unit: bytes, amount: int, provider: bytes = STASH) -> ProviderSlashed:
    return ProviderSlashed(unit, provider, SECOND_DEVICE, PartyFault.LIED, amount)


EVENTS: dict[int, list[object]] = {
    5: [slashed(OLD, 1)],
    6: [
        RaceMissed(MISSED, OTHER, 2), RaceMissed(MISSED, STASH, 3), slashed(LEAVES, 4), slashed(LEAVES, 5, OTHER),
        ended(LEAF_CASE),
    ],
    9: [ended(FOREIGN_CASE), slashed(WHOLE, 6), ended(WHOLE)],
}  # fmt: skip


def unit_with(*racers: tuple[bytes, bytes]) -> SimpleNamespace:
    return SimpleNamespace(racers=[SimpleNamespace(owner=owner, device=device) for owner, device in racers])


STATES = {
    (5, InferenceMarket.units, MISSED): unit_with((OTHER, SECOND_DEVICE), (STASH, FIRST_DEVICE)),
    (6, InferenceMarket.units, MISSED): unit_with((STASH, NEXT_DEVICE)),
    (5, Courts.cases, LEAF_CASE): SimpleNamespace(appealable_until=70),
    (8, Courts.cases, WHOLE): SimpleNamespace(appealable_until=80),
    (8, Courts.cases, FOREIGN_CASE): SimpleNamespace(appealable_until=90),
}


class Blocks:
    """A node of final blocks with their heights as ids, without the states before `oldest`."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest

    async def finalized(self) -> bytes:
        return bytes([LAST])

    async def height(self, block: bytes) -> int:
        return block[0]

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        return [bytes([height]) for height in range(first, last + 1)]

    def _reach(self, block: bytes) -> None:
        if block[0] < self.oldest:
            raise RpcError(4003, "State already discarded")

    async def events(self, block: bytes) -> list[SimpleNamespace]:
        self._reach(block)
        return [SimpleNamespace(event=event) for event in EVENTS.get(block[0], [])]

    async def read(self, item: object, key: bytes, *, at: bytes) -> object:
        self._reach(at)
        return STATES.get((at[0], item, key))


def losses_with(oldest: int) -> list[BondLoss]:
    client: Any = Blocks(oldest)
    return asyncio.run(bond_losses(client, STASH, SINCE))


def test_losses_have_the_device_the_case_and_the_deadline_of_the_block_before() -> None:
    assert losses_with(1) == [
        BondLoss(6, MISSED, 3, PartyFault.MISSED, FIRST_DEVICE),
        BondLoss(6, LEAVES, 4, PartyFault.LIED, SECOND_DEVICE, LEAF_CASE, 70),
        BondLoss(9, WHOLE, 6, PartyFault.LIED, SECOND_DEVICE, WHOLE, 80),
    ]


def test_discarded_states_hide_devices_and_deadlines_and_then_losses() -> None:
    assert losses_with(6) == [
        BondLoss(6, MISSED, 3, PartyFault.MISSED),
        BondLoss(6, LEAVES, 4, PartyFault.LIED, SECOND_DEVICE, LEAF_CASE),
        losses_with(1)[-1],
    ]
    assert losses_with(7) == losses_with(1)[-1:]
