"""Offers, queue, pause and resume of a registered device. The provider key signs."""

from __future__ import annotations

from collections.abc import Callable

from gpu_tasks.data import market_reads, session_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import pace_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.provider.commands.calls import make, only
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, device_named, own_devices
from gpu_tasks.provider.commands.register import check_service
from gpu_tasks.provider.duties.losses import loss_text, newest_losses
from gpu_tasks.provider.duties.resumer import BY_OPERATOR, resuming_risk
from gpu_tasks.provider.earnings import LostPart
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, PauseCause, pause_notes
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal
from gpu_tasks.provider.registration import Planned, check_device_bond
from runtime.frame.call import Call
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair

NOTHING_CHANGES = {"changed": False, "calls": "none"}
Chosen = Callable[[list[DeviceStatus]], list[Call]]


def offer(options: ProviderOptions, device: str, service: int, ask: int, places: int | None, dry_run: bool) -> None:
    """Offer a device to a service, or change its price or its places for sessions."""

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        statuses = await own_devices(client, signing_key)
        await check_service(client, service, ask)
        status = device_named(device, statuses)
        call = InferenceMarket.offer(device=status.id, service=service, ask=ask)
        # The deposit of an offer is locked once, so a new ask locks nothing.
        if service in {number for number, _ in status.offers}:
            planned = list(only(call))
        else:
            deposit = Grains(await client.read(InferenceMarket.offer_deposit.item))
            planned = [Planned(call, facts={"stash_locks": deposit})]
        if places:
            await _require_pace(client, service)
        if places is not None:
            # After the offer, without which a device has no places.
            planned += only(Sessions.offer_places(device=status.id, service=service, places=places))
        return planned

    make(options.session, lambda: options.key, plan, dry_run=dry_run)


async def _require_pace(client: ChainClient, service: int) -> None:
    """Raise ProviderError for places in a service without a pace: no customer can open a session of it."""
    found = await market_reads.service(client, service, await client.finalized())
    if found is not None and not pace_of(found.terms, DeviceClass.CPU):
        raise ProviderError(
            f"service {service} has no pace, and sessions need one. Offer the device without --places, or offer "
            "places in a service that has a pace: `ogpu offer services` shows it",
            code="no_pace",
        )


def withdraw_offer(options: ProviderOptions, device: str, service: int, dry_run: bool) -> None:
    """End an offer, and its places."""

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        status = device_named(device, await own_devices(client, signing_key))
        offered_services = [number for number, _ in status.offers]
        if service not in offered_services:
            listed_services = ", ".join(map(str, offered_services)) or "none"
            raise ProviderError(
                f"0x{status.id.hex()} does not offer service {service}. It offers: {listed_services}",
                code="not_offered",
            )
        places = await session_reads.offered_places(client, [(service, status.id)], await client.finalized())
        ended = [Sessions.offer_places(device=status.id, service=service, places=0)] if places else []
        return only(*ended, InferenceMarket.withdraw_offer(device=status.id, service=service))

    make(options.session, lambda: options.key, plan, dry_run=dry_run)


def queue(options: ProviderOptions, device: str, units: int, dry_run: bool) -> None:
    """Set the length of a device's queue."""

    def chosen(statuses: list[DeviceStatus]) -> list[Call]:
        status = device_named(device, statuses)
        return [] if status.device.queue == units else [Devices.set_queue(device=status.id, queue=units)]

    _make_changes(options, chosen, dry_run=dry_run)


def pause(options: ProviderOptions, device: str | None, dry_run: bool) -> None:
    """Pause a device, or all."""
    named_statuses: list[DeviceStatus] = []

    def chosen(statuses: list[DeviceStatus]) -> list[Call]:
        named_statuses.extend(_named_statuses(device, statuses))
        return [Devices.pause(device=status.id) for status in named_statuses if not status.device.is_paused]

    _make_changes(options, chosen, dry_run=dry_run)
    if not dry_run:  # the daemon does not resume a device that the chain paused either
        device_notes = pause_notes(options.base_path)
        pausable_statuses = [
            status for status in named_statuses if not _stays_refuted(status, device_notes.get(status.id))
        ]
        _note_for_daemon(options, pausable_statuses, cause=PauseCause.OPERATOR, why=BY_OPERATOR, resumes_at=None)


def resume(options: ProviderOptions, device: str | None, dry_run: bool, yes: bool) -> None:
    """Resume a paused device, or all."""
    session, resumed_statuses = options.session, list[DeviceStatus]()

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        statuses = await own_devices(client, signing_key)
        resumed_statuses.extend(status for status in _named_statuses(device, statuses) if status.device.is_paused)
        if not resumed_statuses:
            session.output.facts(NOTHING_CHANGES)
        for status in resumed_statuses:  # a slash may have reduced it
            await check_device_bond(client, status.device.kind, status.device.bond)
        device_notes = pause_notes(options.base_path)
        resume_risks = {status.id: resuming_risk(status, device_notes.get(status.id)) for status in resumed_statuses}
        newest: dict[bytes, LostPart] = {}
        # The search reads recent blocks one by one, so only a device with a risk starts it.
        if any(resume_risks.values()):
            stash = await market_reads.stash_of(client, signing_key.public_key) or signing_key.account
            newest = await newest_losses(client, stash, options.base_path)
        return [_resume_plan(status, resume_risks[status.id], newest.get(status.id)) for status in resumed_statuses]

    make(session, lambda: options.key, plan, dry_run=dry_run, is_agreed=yes)
    # Without the note, the daemon would count the next pause as the old one.
    if not dry_run:
        _note_for_daemon(options, resumed_statuses, is_paused=False, cause=None, why="", resumes_at=None)


def _stays_refuted(status: DeviceStatus, noted_device: NotedDevice | None) -> bool:
    return status.device.is_paused and noted_device is not None and noted_device.cause is PauseCause.REFUTED


def _resume_plan(status: DeviceStatus, resume_risk: str, lost_part: LostPart | None) -> Planned:
    call, short_id = Devices.resume(device=status.id), f"0x{status.id.hex()[:8]}"
    call_facts = {f"risk_of_{short_id}": resume_risk} if resume_risk else {}
    if resume_risk and lost_part is not None:
        call_facts[f"lost_by_{short_id}"] = loss_text(lost_part)
    return Planned(call, facts=call_facts, alters=bool(resume_risk))


def _note_for_daemon(options: ProviderOptions, statuses: list[DeviceStatus], **fields: object) -> None:
    """Note the operator's pause or resume for the daemon of this base path."""
    try:
        with open_journal(options.base_path / JOURNAL_FILE) as database:
            for status in statuses:
                PauseBook(database).note(status.id, **fields)
    except JournalError as error:
        raise ProviderError(
            f"{error}. The chain has the change, but the daemon may undo it", code="file_unusable"
        ) from None


def _named_statuses(device_text: str | None, statuses: list[DeviceStatus]) -> list[DeviceStatus]:
    return statuses if device_text is None else [device_named(device_text, statuses)]


def _make_changes(options: ProviderOptions, choose_calls: Chosen, *, dry_run: bool) -> None:
    """Make the calls that were chosen among the provider's own devices."""
    session = options.session

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        calls = choose_calls(await own_devices(client, signing_key))
        if not calls:
            session.output.facts(NOTHING_CHANGES)
        return only(*calls)

    make(session, lambda: options.key, plan, dry_run=dry_run)
