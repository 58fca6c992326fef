"""`devices` and `status`: this machine's hardware, and the provider's state on the chain and in the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cli.session import note
from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, leaves_below
from gpu_tasks.data import market_reads
from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, side_of
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import DisputeStatus
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import NobodyError
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    StashOptions,
    hardware_of,
    told,
)
from gpu_tasks.provider.commands.run import connect
from gpu_tasks.provider.commands.utilisation import NOW, now_rows
from gpu_tasks.provider.duties.losses import newest_losses
from gpu_tasks.provider.duties.resumer import PauseNote, is_by_loss, why_paused
from gpu_tasks.provider.earnings import EARNINGS_FILE, LOSSES_FILE, LostPart, loss_row, payments
from gpu_tasks.provider.execution.gpu import lost_gpus, why_no_gpu
from gpu_tasks.provider.journal.journal import Journal, JournalError
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.journal.records import End
from gpu_tasks.provider.registration import unbonding_facts
from gpu_tasks.provider.tasks.policy_file import is_draining
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER, present_notes
from runtime.cryptography import ss58
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains, format_amount

HARDWARE = ("number", "name", "class", "memory_mib", "driver", "uuid_hash", "note")
DEVICES = ("device", "class", "bond", "secured", "paused", "assignment", "behind", "queue", "proven", "asks")
UNPROVEN = ("device", "why_no_work")
LOST = ("lost", "block", "case", "appealable_until_block", "appealable_until")
PAUSED = ("device", "why_paused", "resumes_at", *LOST)
SEATS = ("case", "bench", "held", "stage", "said")
DISPUTES = ("batch", "asked_for", "until_block", "shown")


def devices(options: ProviderOptions) -> None:
    """Print this machine's devices."""
    found = hardware_of(options)
    rows = [
        {
            "number": number,
            "name": piece.name,
            "class": piece.kind.name.lower(),
            "memory_mib": None if piece.index is not None and not piece.memory_mib else piece.memory_mib,
            "driver": piece.driver,
            "uuid_hash": piece.uuid_hash,
            "note": piece.limits if piece.index is not None else f"NVML: {why_no_gpu()}",
        }
        for number, piece in enumerate(found)
    ]
    options.output.rows("Devices of this machine", HARDWARE, rows)
    for reason in lost_gpus() if any(piece.index is not None for piece in found) else ():
        note(f"{reason}. It is not offered")


def status(options: ProviderOptions, stash: StashOptions) -> None:
    """Print the state of the provider."""

    async def show() -> None:
        try:
            chain, _ = await connect(options, stash.account(options), tell=note)
        except NobodyError as error:
            await _show_left(options, stash, error)
            return
        try:
            await _show_status(options, chain)
        finally:
            await chain.close()

    asyncio.run(told(show))


async def _show_left(options: ProviderOptions, stash: StashOptions, error: NobodyError) -> None:
    """Print the unbonding bond of a provider that has left. Raise ProviderError if there is none."""
    account = stash.account(options)
    if account is None:
        raise ProviderError(f"{error}. If the provider has left, run `status --stash STASH`", code="not_registered")
    async with await options.session.connect() as client:
        unbonding = await unbonding_facts(client, account)
        bonded = await client.read(TrustStake.bonds, account, at=await client.finalized())
    if not unbonding and not bonded:
        raise ProviderError(f"{error}. {ss58.encode(account)} has no bond, and none unbonds", code="not_registered")
    facts = {"stash": ss58.encode(account), "provider": False, "bonded": Grains(bonded), **unbonding}
    options.output.facts({**facts, **earned_facts(options.base_path / EARNINGS_FILE)})


async def _show_status(options: ProviderOptions, chain: LiveChain) -> None:
    own = await chain.own_devices()
    height, duties = await chain.standing()
    paused = [status for status in own if status.device.is_paused]
    noted = PauseBook(options.base_path).read()
    notes = {status.id: why_paused(status, noted.get(status.id), height) for status in paused}
    is_lost = any(is_by_loss(status, noted.get(status.id)) for status in paused)
    lost = await newest_losses(chain.client, chain.stash, options.base_path / LOSSES_FILE) if is_lost else {}
    rates = (await chain.roll_call([status.id for status in own])).rates
    rows = [
        _device_row(status, notes.get(status.id), rates)
        | _lost_row(lost.get(status.id) if is_by_loss(status, noted.get(status.id)) else None)
        for status in own
    ]
    seats = [seat_row(seat) for seat in await chain.final_seats()]
    disputes = [dispute_row(each, chain.stash) for each in await _disputes(chain)]
    now = now_rows(present_notes(options.base_path / UTILISATION_FOLDER))
    facts = {
        "stash": ss58.encode(chain.stash),
        "height": height,
        "duties": len(duties),
        "draining": is_draining(options.base_path),
        **journal_facts(options.base_path / "journal"),
        **earned_facts(options.base_path / EARNINGS_FILE),
    }
    if options.output.as_json:
        options.output.facts(facts | {"devices": rows, "now": now, "seats": seats, "disputes": disputes})
        return
    options.output.facts(facts)
    options.output.rows("Devices on the chain", DEVICES, [device_shown(row) for row in rows])
    if now:
        options.output.rows("Work of the devices", NOW, now)
    if paused:
        options.output.rows("Why devices are paused", PAUSED, [row for row in rows if row["paused"]])
    if any(row["why_no_work"] for row in rows):
        options.output.rows("Why devices get no work", UNPROVEN, [row for row in rows if row["why_no_work"]])
    if disputes:
        options.output.rows("Disputed batches: this stash must show nodes of its tree", DISPUTES, disputes)
    if seats:
        options.output.rows("Cases of this stash's judge", SEATS, seats)


async def _disputes(chain: LiveChain) -> tuple[DisputeStatus, ...]:
    return await market_reads.disputes(chain.client, chain.stash, await chain.client.finalized())


def _device_row(status: DeviceStatus, note: PauseNote | None, rates: ProvenRates) -> dict[str, Any]:
    return {
        "device": status.id,
        "class": status.device.kind.name.lower(),
        "bond": Grains(status.device.bond),
        "secured": Grains(status.device.secured),
        "paused": status.device.is_paused,
        "why_paused": None if note is None else note.why,
        "resumes_at": None if note is None else note.until_block,
        "assignment": status.device.assignment,
        "behind": len(status.device.behind),
        "queue": status.device.queue,
        "proven": rates.proven.get(status.id, 0),
        "why_no_work": why_no_work(rates, status.id, status.device.kind) or None,
        "asks": [{"service": number, "ask": Grains(offer.ask)} for number, offer in status.offers],
    }


def _lost_row(part: LostPart | None) -> dict[str, Any]:
    """Return the columns about the loss that paused a device; None in each without one."""
    if part is None:
        return dict.fromkeys(LOST)
    row = loss_row(part)
    return {"lost": Grains(part.grains), **{name: row[name] or None for name in LOST[1:]}}


def device_shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a device's row with short ids, which leave room for its numbers."""
    unit = row["assignment"]
    return row | {"asks": _asks(row["asks"]), "assignment": None if unit is None else f"0x{unit.hex()[:8]}"}


def seat_row(status: SeatStatus) -> dict[str, Any]:
    """Return a row: the seat, the hold until its case ends, and its judge's progress."""
    seat, case = status.seat, status.status.case
    said = "committed" if seat.commitment is not None else "nothing yet"
    return {
        "case": status.id,
        "bench": BenchKind(seat.bench).name.lower(),
        "held": Grains(seat.held),
        "stage": case.stage.name.lower(),
        "said": "opened" if seat.statement is not None else said,
    }


def dispute_row(status: DisputeStatus, stash: bytes) -> dict[str, Any]:
    """Return a row for a batch whose nodes the daemon must show, or its provider loses collateral."""
    dispute = status.dispute
    first = dispute.subtree * SUBTREE_LEAVES
    last = first + leaves_below(dispute.requests, dispute.subtree) - 1
    side = side_of(dispute, stash)
    return {
        "batch": status.unit,
        "asked_for": "upper nodes" if dispute.stage is DisputeStage.SUBTREES else f"leaves {first} to {last}",
        "until_block": dispute.deadline,
        "shown": side is not None and side.has_shown,
    }


def _asks(asks: list[dict[str, int]]) -> str:
    return ", ".join(f"service {ask['service']}: {format_amount(ask['ask'])} oGPU" for ask in asks)


def journal_facts(path: Path) -> dict[str, Any]:
    """Return sums over the journal, which a daemon may be writing."""
    if not path.exists():
        return {"journal": "none yet"}
    try:
        journal = Journal(path, is_reader=True)
    except JournalError as error:
        return {"journal": str(error)}
    ends = [entry for entry in journal.races.values() if entry.end is not None]
    journal.close()
    return {
        "races": len(journal.races),
        "open": len(journal.races) - len(ends),
        "won": sum(entry.end is End.WON for entry in ends),
        "witnessed": sum(entry.end is End.WITNESSED for entry in ends),
        "open_tasks": sum(1 for _ in journal.open_tasks()),
    }


def earned_facts(path: Path) -> dict[str, Any]:
    """Return all earnings, and the number of paid tasks."""
    found = list(payments(path))
    return {
        "tasks_paid": sum(each.name.startswith("task ") for each in found),
        "earned": Grains(sum(each.grains for each in found)),
    }
