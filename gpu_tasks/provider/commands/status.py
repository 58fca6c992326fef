"""`devices` and `status`: this machine's hardware, and the provider's state on the chain and in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.session import note
from gpu_tasks.data import claim_reads, session_reads
from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes import DisputeQuestion, DisputeStage
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import NobodyError
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, StashOptions, hardware_of, told
from gpu_tasks.provider.commands.run import connect
from gpu_tasks.provider.commands.utilisation import NOW, now_rows
from gpu_tasks.provider.duties.losses import newest_losses
from gpu_tasks.provider.duties.resumer import PauseNote, is_by_loss, why_paused
from gpu_tasks.provider.earnings import LostPart, loss_row, payments
from gpu_tasks.provider.execution.gpu import lost_gpus, why_no_gpu
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import pause_notes
from gpu_tasks.provider.journal.records import End
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from gpu_tasks.provider.registration import unbonding_facts
from gpu_tasks.provider.tasks.policy_file import is_draining
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER, present_notes
from runtime.cryptography import ss58
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains, counted, format_amount

HARDWARE = ("number", "name", "class", "memory_mib", "driver", "uuid_hash", "note")
DEVICES = ("device", "class", "bond", "secured", "paused", "assignment", "behind", "queue", "proven", "asks")
UNPROVEN = ("device", "why_no_work")
LOST = ("lost", "block", "case", "appealable_until_block", "appealable_until")
PAUSED = ("device", "why_paused", "resumes_at", *LOST)
CLAIMS = ("claim", "role", "stage", "until_block")
BALLOTS = ("dispute", "work", "question", "held", "stage", "said")


def devices(options: ProviderOptions) -> None:
    """Print this machine's devices."""
    found_hardware = hardware_of(options)
    rows = [
        {
            "number": device_number,
            "name": hardware.name,
            "class": hardware.kind.name.lower(),
            # A GPU whose driver does not tell its memory has some, and a CPU has none of its own.
            "memory_mib": None if hardware.index is not None and not hardware.memory_mib else hardware.memory_mib,
            "driver": hardware.driver,
            "uuid_hash": hardware.uuid_hash,
            "note": hardware.limits if hardware.index is not None else f"NVML: {why_no_gpu()}",
        }
        for device_number, hardware in enumerate(found_hardware)
    ]
    options.output.rows("Devices of this machine", HARDWARE, rows)
    for loss_reason in lost_gpus() if any(hardware.index is not None for hardware in found_hardware) else ():
        note(f"{loss_reason}. It is not offered")


def status(options: ProviderOptions, stash: StashOptions) -> None:
    """Print the state of the provider."""

    async def show() -> None:
        try:
            chain, _ = await connect(options, stash.account(options), tell=note)
        # A provider that has left has no key on the chain, but its bond may still be unbonding.
        except NobodyError as error:
            await _show_left(options, stash, error)
            return
        try:
            await _show_status(options, chain)
        finally:
            await chain.close()

    asyncio.run(told(show))


async def _show_left(options: ProviderOptions, stash_options: StashOptions, error: NobodyError) -> None:
    """Print the unbonding bond of a provider that has left. Raise ProviderError if there is none."""
    account = stash_options.account(options)
    if account is None:
        raise ProviderError(f"{error}. If the provider has left, run `status --stash STASH`", code="not_registered")
    async with await options.session.connect() as client:
        unbonding = await unbonding_facts(client, account)
        bonded_grains = await client.read(TrustStake.bonds, account, at=await client.finalized())
    if not unbonding and not bonded_grains:
        raise ProviderError(f"{error}. {ss58.encode(account)} has no bond, and none unbonds", code="not_registered")
    stash_facts = {"stash": ss58.encode(account), "provider": False, "bonded": Grains(bonded_grains), **unbonding}
    options.output.facts({**stash_facts, **earned_facts(options.base_path)})


async def _show_status(options: ProviderOptions, chain: LiveChain) -> None:
    statuses = await chain.own_devices()
    block_height, duty_statuses = await chain.standing()
    paused_statuses = [device_status for device_status in statuses if device_status.device.is_paused]
    device_notes = pause_notes(options.base_path)
    notes = {
        device_status.id: why_paused(device_status, device_notes.get(device_status.id), block_height)
        for device_status in paused_statuses
    }
    has_losses = any(is_by_loss(device_status, device_notes.get(device_status.id)) for device_status in paused_statuses)
    # The search reads recent blocks one by one, so only a pause by a loss starts it.
    newest = await newest_losses(chain.client, chain.stash, options.base_path) if has_losses else {}
    proven_rates = (await chain.roll_call([device_status.id for device_status in statuses])).rates
    offered = [(number, status.id) for status in statuses for number, _ in status.offers]
    places = await session_reads.offered_places(chain.client, offered, await chain.client.finalized())
    device_rows = [
        _device_row(device_status, notes.get(device_status.id), proven_rates, places)
        | _lost_row(
            newest.get(device_status.id) if is_by_loss(device_status, device_notes.get(device_status.id)) else None
        )
        for device_status in statuses
    ]
    claims = await _claims(chain)
    ballots = [ballot_row(ballot) for ballot in await chain.final_ballots()]
    present_rows = now_rows(present_notes(options.base_path / UTILISATION_FOLDER))
    status_facts = {
        "stash": ss58.encode(chain.stash),
        "height": block_height,
        "duties": len(duty_statuses),
        "draining": is_draining(options.base_path),
        **journal_facts(options.base_path),
        **earned_facts(options.base_path),
    }
    if options.output.as_json:
        options.output.facts(
            status_facts | {"devices": device_rows, "now": present_rows} | {"claims": claims, "ballots": ballots}
        )
        return
    options.output.facts(status_facts)
    options.output.rows("Devices on the chain", DEVICES, [device_shown(row) for row in device_rows])
    if present_rows:
        options.output.rows("Work of the devices", NOW, present_rows)
    if paused_statuses:
        options.output.rows("Why devices are paused", PAUSED, [row for row in device_rows if row["paused"]])
    if any(row["why_no_work"] for row in device_rows):
        options.output.rows("Why devices get no work", UNPROVEN, [row for row in device_rows if row["why_no_work"]])
    if claims:
        options.output.rows("Claims in which this stash must act or may appeal", CLAIMS, claims)
    if ballots:
        options.output.rows("Disputes in which this stash votes", BALLOTS, ballots)


async def _claims(chain: LiveChain) -> list[dict[str, Any]]:
    """Return the rows of this stash's duties in claims."""
    claims = await claim_reads.claim_duties(chain.client, chain.stash, await chain.client.finalized())
    return [claim_row(each, chain.stash) for each in claims]


def _device_row(
    device_status: DeviceStatus,
    pause_note: PauseNote | None,
    proven_rates: ProvenRates,
    places: Mapping[tuple[int, bytes], int],
) -> dict[str, Any]:
    return {
        "device": device_status.id,
        "class": device_status.device.kind.name.lower(),
        "bond": Grains(device_status.device.bond),
        "secured": Grains(device_status.device.secured),
        "paused": device_status.device.is_paused,
        "why_paused": None if pause_note is None else pause_note.why,
        "resumes_at": None if pause_note is None else pause_note.until_block,
        "assignment": device_status.device.assignment,
        "behind": len(device_status.device.behind),
        "queue": device_status.device.queue,
        "proven": proven_rates.proven.get(device_status.id, 0),
        "why_no_work": why_no_work(proven_rates, device_status.id, device_status.device.kind) or None,
        "asks": [
            {"service": number, "ask": Grains(offer.ask), "places": places.get((number, device_status.id), 0)}
            for number, offer in device_status.offers
        ],
    }


def _lost_row(lost_part: LostPart | None) -> dict[str, Any]:
    """Return the columns about the loss that paused a device; None in each without one."""
    if lost_part is None:
        return dict.fromkeys(LOST)
    shown_loss = loss_row(lost_part)
    return {"lost": Grains(lost_part.grains), **{column: shown_loss[column] or None for column in LOST[1:]}}


def device_shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a device's row with short ids, which leave room for its numbers."""
    assigned_unit = row["assignment"]
    return row | {
        "asks": _asked_text(row["asks"]),
        "assignment": None if assigned_unit is None else f"0x{assigned_unit.hex()[:8]}",
    }


def claim_row(claim_status: ClaimStatus, stash: bytes) -> dict[str, Any]:
    """Return a row: the claim, this stash's part in it, and the last block of the open window, 0 if there is none."""
    claim = claim_status.claim
    is_checker = any(check.checker == stash for check in claim.checks)
    other_role = "provider" if claim.terms.provider == stash else "disputer"
    return {
        "claim": claim_status.id,
        "role": "checker" if is_checker else other_role,
        "stage": ClaimStage(claim.stage).name.lower(),
        "until_block": claim_status.until,
    }


def ballot_row(ballot_status: BallotStatus) -> dict[str, Any]:
    """Return a row: the dispute, the hold until it ends, and this voter's progress."""
    ballot, dispute = ballot_status.ballot, ballot_status.status.dispute
    progress = "committed" if ballot.commitment is not None else "nothing yet"
    return {
        "dispute": ballot_status.id,
        "work": dispute.terms.work,
        "question": DisputeQuestion(dispute.terms.question).name.lower(),
        "held": Grains(ballot.held),
        "stage": DisputeStage(dispute.stage).name.lower(),
        "said": "opened" if ballot.vote is not None else progress,
    }


def _asked_text(asked_prices: list[dict[str, int]]) -> str:
    return ", ".join(
        f"service {each['service']}: {format_amount(each['ask'])} oGPU"
        + (f" ({counted(each['places'], 'place')})" if each["places"] else "")
        for each in asked_prices
    )


def journal_facts(base_path: Path) -> dict[str, Any]:
    """Return sums over the journal, which a daemon may be writing. Raise JournalError if it is unusable."""
    try:
        journal = Journal(base_path / JOURNAL_FILE, is_reader=True)
    except FileNotFoundError:
        return {"journal": "none yet"}
    ended_races = [race_entry for race_entry in journal.races.values() if race_entry.end is not None]
    journal.close()
    return {
        "races": len(journal.races),
        "open": len(journal.races) - len(ended_races),
        "won": sum(race_entry.end is End.WON for race_entry in ended_races),
        "witnessed": sum(race_entry.end is End.WITNESSED for race_entry in ended_races),
        "open_tasks": sum(1 for _ in journal.open_tasks()),
    }


def earned_facts(base_path: Path) -> dict[str, Any]:
    """Return all earnings, and the number of paid tasks."""
    all_payments = payments(base_path)
    return {
        "tasks_paid": sum(payment.name.startswith("task ") for payment in all_payments),
        "earned": Grains(sum(payment.grains for payment in all_payments)),
    }
