"""Losses of this provider's devices' bonds: reported when a bond falls, and noted beside the earnings.

Invariant: every fall of a bond that this base path sees is noted once. If no event of the final chain shows the cause,
the note has only the sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain import task_records
from gpu_tasks.provider.chain.bond_losses import BondLoss, bond_losses
from gpu_tasks.provider.chain.port import ChainError, DevicePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.earnings import LostPart, losses, utc_text
from gpu_tasks.provider.telemetry import failure
from wallet.amounts import format_amount
from wallet.client import ChainClient

LOOKED_BACK_BLOCKS = 64
WORDS = {
    PartyFault.LIED: "a court refuted its result",
    PartyFault.MISSED: "it missed a race, or revealed its result too late",
    PartyFault.DECLINED: "it declined an input that a court found usable",
}
UNKNOWN_FAULT = "unknown"
UNKNOWN = "recent final blocks do not show the cause"


class LossNotes:
    """The observer of the devices' bonds. Call `step` before their new state is noted."""

    def __init__(self, parts: Parts[DevicePort], clock: Callable[[], int] = time.time_ns) -> None:
        """Start without observations. `clock` gives nanoseconds since 1970."""
        self._parts = parts
        self._clock = clock
        self._since: int | None = None
        self._warned: set[bytes] = set()

    async def step(self, height: int, own: Sequence[DeviceStatus]) -> None:
        """Note the losses since the last look. Raise ChainError on failure."""
        notes = self._parts.pauses.read()
        fallen = {
            status.id: notes[status.id].bond - status.device.bond
            for status in own
            if status.id in notes and notes[status.id].bond > status.device.bond
        }
        # After a start the last look is unknown. A bounded search finds recent causes, and older losses are noted
        # without one.
        since = height - LOOKED_BACK_BLOCKS if self._since is None else self._since
        if fallen:
            found = await self._found(since)
            slot_ms = await self._parts.chain.slot_ms()
            known = {part.name for part in losses(self._parts.losses.path)}
            for loss in found:
                if loss.device in fallen:
                    fallen[loss.device] -= loss.grains
                    # A loss found again after a restart is already in the file.
                    if _name(loss) not in known:
                        self._note(loss.device, loss, height, slot_ms)
            for device, grains in fallen.items():
                if grains > 0:
                    self._note_rest(device, grains, notes[device].losses)
        self._since = height

    async def _found(self, since: int) -> list[BondLoss]:
        try:
            return await self._parts.chain.bond_losses(since)
        except ChainError as error:
            self._parts.telemetry.tell("not_noted", **failure(error))
            return []

    def _note(self, device: bytes, loss: BondLoss, height: int, slot_ms: int) -> None:
        part = lost_part(loss, device, height, slot_ms, self._clock() // 1_000_000)
        self._parts.losses.note(part)
        fields = {} if loss.case is None else {"case": loss.case}
        self._parts.telemetry.tell(
            "lost",
            device=device,
            unit=loss.unit,
            grains=loss.grains,
            block=loss.block,
            **fields,
            problem=loss_text(part),
        )

    async def warn(self, unit: bytes, height: int) -> None:
        """Report a verdict against an own result once: the amount at stake and the appeal deadline."""
        case = await self._parts.chain.case(unit)
        if case is None or unit in self._warned:
            return
        self._warned.add(unit)
        stash = self._parts.identity.stash
        held = sum(claim.held for claim in case.terms.claims if claim.account == stash)
        left = case.appealable_until - height
        until_ms = self._clock() // 1_000_000 + left * await self._parts.chain.slot_ms()
        problem = (
            f"judges refuted this result: {format_amount(held)} oGPU of the device's bond are lost unless an appeal "
            f"succeeds. The daemon appeals; the verdict is final after block {case.appealable_until} "
            f"({utc_text(until_ms)})"
        )
        self._parts.telemetry.tell(
            "found_wrong", unit=unit, case=unit, grains=held, appealable_until=case.appealable_until, problem=problem
        )

    def _note_rest(self, device: bytes, grains: int, number: int) -> None:
        now_ms = self._clock() // 1_000_000
        name = f"loss 0x{device.hex()} {number}"
        part = LostPart(now_ms, name, f"0x{device.hex()}", grains, UNKNOWN_FAULT)
        self._parts.losses.note(part)
        self._parts.telemetry.tell("lost", device=device, grains=grains, problem=loss_text(part))


async def newest_losses(client: ChainClient, stash: bytes, path: Path) -> dict[bytes, LostPart]:
    """Return each device's newest loss, from a file of losses and from recent final blocks."""
    newest = {bytes.fromhex(part.device.removeprefix("0x")): part for part in losses(path)}
    height, slot_ms = await client.height(await client.finalized()), task_records.slot_ms(client)
    for loss in await bond_losses(client, stash, max(0, height - LOOKED_BACK_BLOCKS)):
        if loss.device is not None:
            newest[loss.device] = lost_part(loss, loss.device, height, slot_ms, time.time_ns() // 1_000_000)
    return newest


def lost_part(loss: BondLoss, device: bytes, height: int, slot_ms: int, now_ms: int) -> LostPart:
    """Return the line of a loss, with the time of its appeal deadline."""
    until = loss.appealable_until
    until_ms = now_ms + (until - height) * slot_ms if until else 0
    case = "" if loss.case is None else f"0x{loss.case.hex()}"
    fault = loss.fault.name.lower()
    return LostPart(
        now_ms, _name(loss), f"0x{device.hex()}", loss.grains, fault, loss.block, case, until, max(0, until_ms)
    )


def loss_text(part: LostPart) -> str:
    """Return a loss in words: the amount, the cause, the case, and the appeal deadline with its time."""
    cause = UNKNOWN if part.fault == UNKNOWN_FAULT else WORDS[PartyFault[part.fault.upper()]]
    case = f", case {part.case}" if part.case else ""
    appeals = f"; an appeal was possible until block {part.appealable_until} ({part.until_text})"
    deadline = appeals if part.appealable_until else ""
    return f"{format_amount(part.grains)} oGPU of the device's bond are lost: {cause}{case}{deadline}"


def _name(loss: BondLoss) -> str:
    return f"loss 0x{loss.unit.hex()} {loss.block}"
