"""Losses of this provider's devices' bonds: reported when a bond falls, and noted beside the earnings.

Invariant: every fall of a bond that this base path sees is noted once. If no event of the final chain shows the cause,
the note has only the sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain import task_records
from gpu_tasks.provider.chain.bond_losses import BondLoss, Fault, bond_losses
from gpu_tasks.provider.chain.port import ChainError, DevicePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.earnings import NO_DEVICE, LostPart, losses
from gpu_tasks.provider.telemetry import failure
from wallet.amounts import format_amount
from wallet.client import ChainClient

LOOKED_BACK_BLOCKS = 64
WORDS = {
    Fault.LIED: "voters or a checker refuted its result, or it did not show it",
    Fault.MISSED: "it missed a race, did not reveal its result, or declined a usable input",
    Fault.PASSED: "it passed a race that it could not finish",
    Fault.CHECK: "a check without a finding, or with a refuted one",
    Fault.VOTE: "a vote that was not given, or outvoted",
}
UNKNOWN_FAULT = "unknown"
UNKNOWN = "recent final blocks do not show the cause"


class LossNotes:
    """The observer of the devices' bonds. Call `step` before their new state is noted."""

    def __init__(self, parts: Parts[DevicePort], clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Start without observations. `clock_ns` gives nanoseconds since 1970."""
        self._parts = parts
        self._clock = clock_ns
        self._since: int | None = None

    async def step(self, height: int, own_devices: Sequence[DeviceStatus]) -> None:
        """Note the losses since the last look. Raise ChainError on failure."""
        device_notes = self._parts.pauses.read()
        fallen_by_device = {
            device_status.id: device_notes[device_status.id].bond - device_status.device.bond
            for device_status in own_devices
            if device_status.id in device_notes and device_notes[device_status.id].bond > device_status.device.bond
        }
        # After a start the last look is unknown. A bounded search finds recent causes, and older losses are noted
        # without one.
        since = height - LOOKED_BACK_BLOCKS if self._since is None else self._since
        if fallen_by_device:
            new_losses = await self._new_losses(since)
            slot_ms = await self._parts.chain.slot_ms()
            known = {part.name for part in self._parts.losses.read()}
            for loss in new_losses:
                if loss.device in fallen_by_device:
                    fallen_by_device[loss.device] -= loss.grains
                    # A loss found again after a restart is already in the file.
                    if _loss_name(loss) not in known:
                        self._note_loss(loss.device, loss, height, slot_ms)
            for device_id, grains in fallen_by_device.items():
                if grains > 0:
                    self._note_rest(device_id, grains, device_notes[device_id].losses)
        self._since = height

    async def _new_losses(self, since: int) -> list[BondLoss]:
        try:
            return await self._parts.chain.bond_losses(since)
        except ChainError as error:
            self._parts.telemetry.tell("not_noted", **failure(error))
            return []

    def _note_loss(self, device_id: bytes, loss: BondLoss, block_height: int, slot_ms: int) -> None:
        part = lost_part(loss, device_id, block_height, slot_ms, self._clock() // 1_000_000)
        self._parts.losses.note(part)
        loss_fields = {} if loss.case is None else {"case": loss.case}
        self._parts.telemetry.tell(
            "lost",
            device=device_id,
            unit=loss.unit,
            grains=loss.grains,
            block=loss.block,
            **loss_fields,
            problem=loss_text(part),
        )

    def _note_rest(self, device_id: bytes, grains: int, number: int) -> None:
        now_ms = self._clock() // 1_000_000
        name = f"loss 0x{device_id.hex()} {number}"
        part = LostPart(now_ms, name, f"0x{device_id.hex()}", grains, UNKNOWN_FAULT)
        self._parts.losses.note(part)
        self._parts.telemetry.tell("lost", device=device_id, grains=grains, problem=loss_text(part))


async def newest_losses(client: ChainClient, stash: bytes, base_path: Path) -> dict[bytes, LostPart]:
    """Return each device's newest loss, from the journal of a base path and from recent final blocks."""
    parts = losses(base_path)
    newest = {bytes.fromhex(part.device.removeprefix("0x")): part for part in parts if part.device != NO_DEVICE}
    block_height, slot_ms = await client.height(await client.finalized()), task_records.slot_ms(client)
    for loss in await bond_losses(client, stash, max(0, block_height - LOOKED_BACK_BLOCKS)):
        if loss.device is not None:
            newest[loss.device] = lost_part(loss, loss.device, block_height, slot_ms, time.time_ns() // 1_000_000)
    return newest


def lost_part(loss: BondLoss, device_id: bytes, block_height: int, slot_ms: int, now_ms: int) -> LostPart:
    """Return the line of a loss, with the time of its appeal deadline."""
    appealable_until = loss.appealable_until
    until_ms = now_ms + (appealable_until - block_height) * slot_ms if appealable_until else 0
    case = "" if loss.case is None else f"0x{loss.case.hex()}"
    fault = loss.fault.name.lower()
    return LostPart(
        now_ms,
        _loss_name(loss),
        f"0x{device_id.hex()}",
        loss.grains,
        fault,
        loss.block,
        case,
        appealable_until,
        max(0, until_ms),
    )


def loss_text(part: LostPart) -> str:
    """Return a loss in words: the amount, the cause, the dispute, and the appeal deadline with its time."""
    cause = UNKNOWN if part.fault == UNKNOWN_FAULT else WORDS[Fault[part.fault.upper()]]
    owner = "this stash" if part.device == NO_DEVICE else "the device's bond"
    case = f", dispute {part.case}" if part.case else ""
    appeal = f"; an appeal was possible until block {part.appealable_until} ({part.until_text})"
    deadline = appeal if part.appealable_until else ""
    return f"{format_amount(part.grains)} oGPU of {owner} are lost: {cause}{case}{deadline}"


def _loss_name(loss: BondLoss) -> str:
    return f"loss 0x{loss.unit.hex()} {loss.block}"
