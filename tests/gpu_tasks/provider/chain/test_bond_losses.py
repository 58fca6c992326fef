"""Losses of a provider's bonds, computed from the events and the states of blocks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, RacePassed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.bond_losses import BondLoss, Fault, bond_losses
from wallet.rpc import RpcError

STASH, OTHER = b"s" * 32, b"o" * 32
MISSED, LEAVES, WHOLE, OLD, PASSED = (bytes([number]) * 32 for number in range(5))
LEAF_DISPUTE, WHOLE_DISPUTE, FOREIGN_DISPUTE = b"l" * 32, b"w" * 32, b"f" * 32
FIRST_DEVICE, SECOND_DEVICE, NEXT_DEVICE = (bytes([number]) * 32 for number in range(7, 10))
SINCE, LAST = 5, 12


def ended(dispute: bytes) -> DisputeEnded:
    return DisputeEnded(dispute, None)


def slashed(unit: bytes, amount: int, provider: bytes = STASH) -> ProviderSlashed:
    return ProviderSlashed(unit, provider, SECOND_DEVICE, amount)


EVENTS: dict[int, list[object]] = {
    5: [slashed(OLD, 1)],
    6: [
        RaceMissed(MISSED, OTHER, 2), RaceMissed(MISSED, STASH, 3), slashed(LEAVES, 4), slashed(LEAVES, 5, OTHER),
        ended(LEAF_DISPUTE),
    ],
    9: [ended(FOREIGN_DISPUTE), slashed(WHOLE, 6), ended(WHOLE_DISPUTE)],
    10: [RacePassed(PASSED, 1, STASH, 7), slashed(WHOLE, 8)],
}  # fmt: skip


def unit_with(*racers: tuple[bytes, bytes]) -> SimpleNamespace:
    return SimpleNamespace(racers=[SimpleNamespace(owner=owner, device=device) for owner, device in racers])


def dispute_about(unit: bytes, until: int) -> SimpleNamespace:
    return SimpleNamespace(terms=SimpleNamespace(work=unit), appealable_until=until)


STATES = {
    (5, InferenceMarket.units, MISSED): unit_with((OTHER, SECOND_DEVICE), (STASH, FIRST_DEVICE)),
    (6, InferenceMarket.units, MISSED): unit_with((STASH, NEXT_DEVICE)),
    (5, Disputes.disputes, LEAF_DISPUTE): dispute_about(LEAVES, 70),
    (8, Disputes.disputes, WHOLE_DISPUTE): dispute_about(WHOLE, 80),
    (8, Disputes.disputes, FOREIGN_DISPUTE): dispute_about(OLD, 90),
    (9, InferenceMarket.units, PASSED): unit_with((STASH, NEXT_DEVICE)),
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


def test_losses_have_the_device_the_dispute_and_the_deadline_of_the_block_before() -> None:
    assert losses_with(1) == [
        BondLoss(6, MISSED, 3, Fault.MISSED, FIRST_DEVICE),
        BondLoss(6, LEAVES, 4, Fault.LIED, SECOND_DEVICE, LEAF_DISPUTE, 70),
        BondLoss(9, WHOLE, 6, Fault.LIED, SECOND_DEVICE, WHOLE_DISPUTE, 80),
        BondLoss(10, PASSED, 7, Fault.PASSED, NEXT_DEVICE),
        BondLoss(10, WHOLE, 8, Fault.LIED, SECOND_DEVICE),
    ]


def test_discarded_states_hide_devices_and_deadlines_and_then_losses() -> None:
    assert losses_with(6) == [
        BondLoss(6, MISSED, 3, Fault.MISSED),
        BondLoss(6, LEAVES, 4, Fault.LIED, SECOND_DEVICE),
        *losses_with(1)[2:],
    ]
    assert losses_with(7) == losses_with(1)[2:]
