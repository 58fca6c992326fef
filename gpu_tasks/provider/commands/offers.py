"""Offers, queue, pause and resume of a registered device. The provider key signs."""

from __future__ import annotations

from collections.abc import Callable

from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.commands.calls import make, only
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, device_named, own_devices
from gpu_tasks.provider.commands.register import check_service
from gpu_tasks.provider.duties.losses import loss_text, newest_losses
from gpu_tasks.provider.duties.resumer import BY_OPERATOR, resuming_risk
from gpu_tasks.provider.earnings import LOSSES_FILE, LostPart
from gpu_tasks.provider.journal.journal import JournalError
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, PauseCause
from gpu_tasks.provider.registration import Planned, check_device_bond
from runtime.frame.call import Call
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair

NOTHING_CHANGES = {"changed": False, "calls": "none"}
Chosen = Callable[[list[DeviceStatus]], list[Call]]


def offer(provider_options: ProviderOptions, device: str, service: int, ask: int, dry_run: bool) -> None:
    """Offer a device to a service, or change its price."""

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        own_statuses = await own_devices(chain_client, signing_key)
        await check_service(chain_client, service, ask)
        device_status = device_named(device, own_statuses)
        chain_call = InferenceMarket.offer(device=device_status.id, service=service, ask=ask)
        if service in {service_number for service_number, _ in device_status.offers}:
            return only(chain_call)
        return [
            Planned(
                chain_call, facts={"stash_locks": Grains(await chain_client.read(InferenceMarket.offer_deposit.item))}
            )
        ]

    make(provider_options.session, lambda: provider_options.key, plan, dry_run=dry_run)


def withdraw_offer(provider_options: ProviderOptions, device: str, service: int, dry_run: bool) -> None:
    """End an offer."""

    def chosen(own_statuses: list[DeviceStatus]) -> list[Call]:
        device_status = device_named(device, own_statuses)
        offered_services = [service_number for service_number, _ in device_status.offers]
        if service not in offered_services:
            listed_services = ", ".join(map(str, offered_services)) or "none"
            raise ProviderError(
                f"0x{device_status.id.hex()} does not offer service {service}. It offers: {listed_services}",
                code="not_offered",
            )
        return [InferenceMarket.withdraw_offer(device=device_status.id, service=service)]

    _make_changes(provider_options, chosen, dry_run=dry_run)


def queue(provider_options: ProviderOptions, device: str, units: int, dry_run: bool) -> None:
    """Set the length of a device's queue."""

    def chosen(own_statuses: list[DeviceStatus]) -> list[Call]:
        device_status = device_named(device, own_statuses)
        return [] if device_status.device.queue == units else [Devices.set_queue(device=device_status.id, queue=units)]

    _make_changes(provider_options, chosen, dry_run=dry_run)


def pause(provider_options: ProviderOptions, device: str | None, dry_run: bool) -> None:
    """Pause a device, or all."""
    named_statuses: list[DeviceStatus] = []

    def chosen(own_statuses: list[DeviceStatus]) -> list[Call]:
        named_statuses.extend(_named_statuses(device, own_statuses))
        return [
            Devices.pause(device=device_status.id)
            for device_status in named_statuses
            if not device_status.device.is_paused
        ]

    _make_changes(provider_options, chosen, dry_run=dry_run)
    if not dry_run:  # the daemon does not resume a device that the chain paused either
        pause_notes = PauseBook(provider_options.base_path).read()
        pausable_statuses = [
            device_status
            for device_status in named_statuses
            if not _stays_refuted(device_status, pause_notes.get(device_status.id))
        ]
        _note_for_daemon(
            provider_options, pausable_statuses, cause=PauseCause.OPERATOR, why=BY_OPERATOR, resumes_at=None
        )


def resume(provider_options: ProviderOptions, device: str | None, dry_run: bool, yes: bool) -> None:
    """Resume a paused device, or all."""
    session, resumed_statuses = provider_options.session, list[DeviceStatus]()

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        own_statuses = await own_devices(chain_client, signing_key)
        resumed_statuses.extend(
            device_status for device_status in _named_statuses(device, own_statuses) if device_status.device.is_paused
        )
        if not resumed_statuses:
            session.output.facts(NOTHING_CHANGES)
        for device_status in resumed_statuses:  # a slash may have reduced it
            await check_device_bond(chain_client, device_status.device.kind, device_status.device.bond)
        pause_notes = PauseBook(provider_options.base_path).read()
        resume_risks = {
            device_status.id: resuming_risk(device_status, pause_notes.get(device_status.id))
            for device_status in resumed_statuses
        }
        newest_loss_by_device: dict[bytes, LostPart] = {}
        if any(resume_risks.values()):
            provider_stash = await market_reads.stash_of(chain_client, signing_key.public_key) or signing_key.account
            newest_loss_by_device = await newest_losses(
                chain_client, provider_stash, provider_options.base_path / LOSSES_FILE
            )
        return [
            _resume_plan(device_status, resume_risks[device_status.id], newest_loss_by_device.get(device_status.id))
            for device_status in resumed_statuses
        ]

    make(session, lambda: provider_options.key, plan, dry_run=dry_run, is_agreed=yes)
    # Without the note, the daemon would count the next pause as the old one.
    if not dry_run:
        _note_for_daemon(provider_options, resumed_statuses, is_paused=False, cause=None, why="", resumes_at=None)


def _stays_refuted(device_status: DeviceStatus, noted_device: NotedDevice | None) -> bool:
    return device_status.device.is_paused and noted_device is not None and noted_device.cause is PauseCause.REFUTED


def _resume_plan(device_status: DeviceStatus, resume_risk: str, lost_part: LostPart | None) -> Planned:
    chain_call, short_id = Devices.resume(device=device_status.id), f"0x{device_status.id.hex()[:8]}"
    call_facts = {f"risk_of_{short_id}": resume_risk} if resume_risk else {}
    if resume_risk and lost_part is not None:
        call_facts[f"lost_by_{short_id}"] = loss_text(lost_part)
    return Planned(chain_call, facts=call_facts, alters=bool(resume_risk))


def _note_for_daemon(provider_options: ProviderOptions, changed_statuses: list[DeviceStatus], **fields: object) -> None:
    """Note the operator's pause or resume for the daemon of this base path."""
    pause_book = PauseBook(provider_options.base_path)
    for device_status in changed_statuses:
        try:
            pause_book.note(device_status.id, **fields)
        except (JournalError, OSError) as error:
            raise ProviderError(
                f"{error}. The chain has the change, but the daemon may undo it", code="file_unusable"
            ) from None


def _named_statuses(device_text: str | None, own_statuses: list[DeviceStatus]) -> list[DeviceStatus]:
    return own_statuses if device_text is None else [device_named(device_text, own_statuses)]


def _make_changes(provider_options: ProviderOptions, choose_calls: Chosen, *, dry_run: bool) -> None:
    """Make the calls that were chosen among the provider's own devices."""
    wallet_session = provider_options.session

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        chain_calls = choose_calls(await own_devices(chain_client, signing_key))
        if not chain_calls:
            wallet_session.output.facts(NOTHING_CHANGES)
        return only(*chain_calls)

    make(wallet_session, lambda: provider_options.key, plan, dry_run=dry_run)
