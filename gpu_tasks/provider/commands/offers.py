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


def offer(options: ProviderOptions, device: str, service: int, ask: int, dry_run: bool) -> None:
    """Offer a device to a service, or change its price."""

    async def plan(client: ChainClient, key: Keypair) -> list[Planned]:
        own = await own_devices(client, key)
        await check_service(client, service, ask)
        status = device_named(device, own)
        call = InferenceMarket.offer(device=status.id, service=service, ask=ask)
        if service in {number for number, _ in status.offers}:
            return only(call)
        return [Planned(call, facts={"stash_locks": Grains(await client.read(InferenceMarket.offer_deposit.item))})]

    make(options.session, lambda: options.key, plan, dry_run=dry_run)


def withdraw_offer(options: ProviderOptions, device: str, service: int, dry_run: bool) -> None:
    """End an offer."""

    def chosen(own: list[DeviceStatus]) -> list[Call]:
        status = device_named(device, own)
        offered = [number for number, _ in status.offers]
        if service not in offered:
            listed = ", ".join(map(str, offered)) or "none"
            raise ProviderError(
                f"0x{status.id.hex()} does not offer service {service}. It offers: {listed}", code="not_offered"
            )
        return [InferenceMarket.withdraw_offer(device=status.id, service=service)]

    _change(options, chosen, dry_run=dry_run)


def queue(options: ProviderOptions, device: str, units: int, dry_run: bool) -> None:
    """Set the length of a device's queue."""

    def chosen(own: list[DeviceStatus]) -> list[Call]:
        status = device_named(device, own)
        return [] if status.device.queue == units else [Devices.set_queue(device=status.id, queue=units)]

    _change(options, chosen, dry_run=dry_run)


def pause(options: ProviderOptions, device: str | None, dry_run: bool) -> None:
    """Pause a device, or all."""
    named: list[DeviceStatus] = []

    def chosen(own: list[DeviceStatus]) -> list[Call]:
        named.extend(_named(device, own))
        return [Devices.pause(device=status.id) for status in named if not status.device.is_paused]

    _change(options, chosen, dry_run=dry_run)
    if not dry_run:  # the daemon does not resume a device that the chain paused either
        known = PauseBook(options.base_path).read()
        others = [status for status in named if not _stays_refuted(status, known.get(status.id))]
        _note(options, others, cause=PauseCause.OPERATOR, why=BY_OPERATOR, resumes_at=None)


def resume(options: ProviderOptions, device: str | None, dry_run: bool, yes: bool) -> None:
    """Resume a paused device, or all."""
    session, resumed = options.session, list[DeviceStatus]()

    async def plan(client: ChainClient, key: Keypair) -> list[Planned]:
        own = await own_devices(client, key)
        resumed.extend(status for status in _named(device, own) if status.device.is_paused)
        if not resumed:
            session.output.facts(NOTHING_CHANGES)
        for status in resumed:  # a slash may have reduced it
            await check_device_bond(client, status.device.kind, status.device.bond)
        notes = PauseBook(options.base_path).read()
        risks = {status.id: resuming_risk(status, notes.get(status.id)) for status in resumed}
        lost: dict[bytes, LostPart] = {}
        if any(risks.values()):
            stash = await market_reads.stash_of(client, key.public_key) or key.account
            lost = await newest_losses(client, stash, options.base_path / LOSSES_FILE)
        return [_resuming(status, risks[status.id], lost.get(status.id)) for status in resumed]

    make(session, lambda: options.key, plan, dry_run=dry_run, is_agreed=yes)
    if not dry_run:
        _note(options, resumed, is_paused=False, cause=None, why="", resumes_at=None)


def _stays_refuted(status: DeviceStatus, note: NotedDevice | None) -> bool:
    return status.device.is_paused and note is not None and note.cause is PauseCause.REFUTED


def _resuming(status: DeviceStatus, risk: str, part: LostPart | None) -> Planned:
    call, name = Devices.resume(device=status.id), f"0x{status.id.hex()[:8]}"
    facts = {f"risk_of_{name}": risk} if risk else {}
    if risk and part is not None:
        facts[f"lost_by_{name}"] = loss_text(part)
    return Planned(call, facts=facts, alters=bool(risk))


def _note(options: ProviderOptions, changed: list[DeviceStatus], **fields: object) -> None:
    """Note the operator's pause or resume for the daemon of this base path."""
    book = PauseBook(options.base_path)
    for status in changed:
        try:
            book.note(status.id, **fields)
        except (JournalError, OSError) as error:
            raise ProviderError(
                f"{error}. The chain has the change, but the daemon may undo it", code="file_unusable"
            ) from None


def _named(text: str | None, own: list[DeviceStatus]) -> list[DeviceStatus]:
    return own if text is None else [device_named(text, own)]


def _change(options: ProviderOptions, chosen: Chosen, *, dry_run: bool) -> None:
    """Make the calls that were chosen among the provider's own devices."""
    session = options.session

    async def plan(client: ChainClient, key: Keypair) -> list[Planned]:
        calls = chosen(await own_devices(client, key))
        if not calls:
            session.output.facts(NOTHING_CHANGES)
        return only(*calls)

    make(session, lambda: options.key, plan, dry_run=dry_run)
