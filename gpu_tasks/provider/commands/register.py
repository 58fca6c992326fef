"""`register`: become a provider, and offer a device of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from cli.output import as_text
from cli.session import note
from gpu_tasks.data import market_reads
from gpu_tasks.data.endpoint import EndpointError, reachable_endpoint
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    StashOptions,
    hardware_of,
    idle_gpu_problem,
    numbered,
)
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import chosen_backend, idle_gpus
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError, Workloads
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal
from gpu_tasks.provider.registration import (
    DEVICE_BOND,
    FIRST_ASK,
    Planned,
    Registration,
    endpoint_now,
    registration_calls,
    what_is_there,
)
from wallet.amounts import format_amount
from wallet.calls.node_keys import read_node_keys
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

PPM_PER_PERCENT = 10_000
SERVICES_SHOWN = 8
START_NOW = (
    "start `ogpu-provider run` if it does not run: the chain may assign work to the device. A missed race costs a "
    "part of the bond and pauses the device"
)
FIRST_ENDPOINT = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
"""The endpoint of a new provider without `--endpoint`."""


def register(
    options: ProviderOptions, stash: StashOptions, endpoint: str | None, number: int, device_bond: int,
    service: int, ask: int | None, bond: int | None, node_keys: str | None, commission: int, dry_run: bool,
    yes: bool,
) -> None:  # fmt: skip
    """Register what is missing, and update what differs."""
    session = stash.session(options)
    joining: list[Registration] = []

    def wanted(client: ChainClient, signing_key: Keypair, endpoint: str, terms: ServiceTerms | None) -> Registration:
        return Registration(
            stash=signing_key.account,
            provider_key=options.key.public_key,
            seal_key=SealKey.of(options.key).public,
            endpoint=endpoint,
            hardware=numbered(hardware_of(options), number),
            device_bond=device_bond,
            service=service,
            ask=ask,
            # No unit pays an ask above the service's highest price, so the device would get no work.
            first_ask=FIRST_ASK if terms is None else min(FIRST_ASK, terms.price_max),
            bond=bond,
            node_keys=None if node_keys is None else read_node_keys(node_keys, signing_key.account, client),
            commission_ppm=commission * PPM_PER_PERCENT,
        )

    async def plan(client: ChainClient, signing_key: Keypair) -> Sequence[Planned]:
        stated_endpoint = await endpoint_now(client, signing_key.account) if endpoint is None else endpoint
        chosen_endpoint = FIRST_ENDPOINT if stated_endpoint is None else stated_endpoint
        _check_endpoint(chosen_endpoint, private=market_reads.is_development(client))
        terms = await check_service(client, service, ask) if ask is not None else await terms_of(client, service)
        registration = wanted(client, signing_key, chosen_endpoint, terms)
        _warn_of_idle_gpu(registration.hardware)
        planned_calls = await registration_calls(client, registration)
        facts = await what_is_there(client, registration)
        if facts:
            note(_unchanged_text(facts))
        if planned_calls and ask is None:
            await check_service(client, service, None)
        if not planned_calls:
            session.output.facts({"registered": True, "calls": "none", **facts})
        if any(planned_call.purpose == DEVICE_BOND for planned_call in planned_calls):
            joining.append(registration)
        return planned_calls

    # The chain may draw a new device in its first block, before any daemon could note it.
    def before() -> None:
        _note_registered(options, joining)

    make(session, lambda: stash.key(options), plan, dry_run=dry_run, is_agreed=yes, before=before)
    if joining and not dry_run:
        note(START_NOW)


def _note_registered(options: ProviderOptions, new_registrations: Sequence[Registration]) -> None:
    """Note new devices for the daemon of this base path, which may start after the first race."""
    try:
        with open_journal(options.base_path / JOURNAL_FILE) as database:
            for registration in new_registrations:
                PauseBook(database).note_registered(registration.device, registration.device_bond)
    except JournalError as error:
        raise ProviderError(f"{error}. Nothing was sent", code="file_unusable") from None


def _warn_of_idle_gpu(hardware: Hardware) -> None:
    for piece in idle_gpus(chosen_backend(None, [hardware]), [hardware]):
        note(f"{idle_gpu_problem(piece)}. `run` refuses to start until you install it")


def _unchanged_text(facts: Mapping[str, Any]) -> str:
    """Describe a provider's present registration, and the commands that change it."""
    text = ", ".join(f"{name.replace('_', ' ')} {as_text(fact)}" for name, fact in facts.items() if fact is not None)
    return (
        f"the stash is a provider already: {text}. Only the facts below change. To change others, see "
        "`ogpu-wallet unstake`, `commission` and `set-keys`. A device keeps its bond"
    )


async def terms_of(client: ChainClient, number: int) -> ServiceTerms | None:
    """Return a service's terms; None for an unknown number."""
    service = (await market_reads.services(client)).get(number)
    return None if service is None else service.terms


async def check_service(client: ChainClient, number: int, ask: int | None) -> ServiceTerms:
    """Raise ProviderError for an unknown service, unknown work, or an ask that no unit can meet."""
    services = await market_reads.services(client)
    if number not in services:
        raise ProviderError(f"there is no service {number}. {_listed(services)}", code="unknown_service")
    terms: ServiceTerms = services[number].terms
    try:
        Workloads().of(terms)
    except UnknownWorkloadError as error:
        raise ProviderError(f"service {number} cannot be offered: {error}", code="unknown_workload") from None
    if ask is not None and not 0 < ask <= terms.price_max:
        highest_price = format_amount(terms.price_max)
        raise ProviderError(
            f"--ask {format_amount(ask)}: a unit of service {number} pays {_price_range(terms)}. Ask "
            f"for more than 0, and for {highest_price} oGPU at most",
            code="ask_out_of_bounds",
        )
    if ask is not None and ask < terms.price_min:
        note(f"a unit of service {number} pays {_price_range(terms)}, so a lower ask changes nothing")
    return terms


def _listed(services: Mapping[int, Service]) -> str:
    """List the chain's services, as many as fit a line."""
    if not services:
        return "The chain has no services"
    shown_services = [
        f"{number} ({_service_name(service)}, {_price_range(service.terms)})"
        for number, service in sorted(services.items())
    ]
    more_text = (
        f", and {len(shown_services) - SERVICES_SHOWN} more: `ogpu offer services`"
        if len(shown_services) > SERVICES_SHOWN
        else ""
    )
    return f"The chain has service {', '.join(shown_services[:SERVICES_SHOWN])}{more_text}"


# The creator of a service chooses its name, which could hold commands for the operator's terminal.
def _service_name(service: Service) -> str:
    return harmless(service.terms.name.decode("utf-8", "replace"))


def _price_range(terms: ServiceTerms) -> str:
    lowest_price, highest_price = format_amount(terms.price_min), format_amount(terms.price_max)
    return f"{lowest_price} to {highest_price} oGPU for a thousand output tokens"


def _check_endpoint(text: str, *, private: bool) -> None:
    """Raise ProviderError for an address at which customers cannot reach the blob store."""
    try:
        reachable_endpoint(text, is_private_allowed=private)
    except EndpointError as error:
        meant_endpoint = _meant_endpoint(text, private=private)
        hint = (
            f"Did you mean {meant_endpoint}?"
            if meant_endpoint
            else "Give the public address, such as http://gpu.example.org:9750"
        )
        raise ProviderError(f"--endpoint: {error}. {hint}", code="endpoint_unusable") from None


def _meant_endpoint(text: str, *, private: bool) -> str | None:
    """Return the endpoint meant by a text without a scheme, or with a path; None if there is none."""
    try:
        # A user name before the host is no part of an endpoint.
        url_parts = urlsplit(text if "://" in text else f"http://{text}")
        return reachable_endpoint(
            f"{url_parts.scheme}://{url_parts.netloc.rpartition('@')[2]}", is_private_allowed=private
        ).url
    except ValueError:
        return None
