"""The sale of places for sessions on a devnet: services with a price for input, and the offers of their providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devnet.launcher.folder import DevnetError
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from genesis.presets import INPUT_SHARE, PACE
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.events import ServiceCreated
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

COMMIT_BLOCKS, TOKENS_MAX = 60, 256


def create_services(stage: Stage, form: WorkloadForm, names: Sequence[str], rate: int) -> dict[str, int]:
    """Create a service of a language model for each name, at one price. Return their numbers."""
    calls = tuple(
        InferenceMarket.create_service(
            terms=ServiceTerms(
                name=name.encode(),
                workload=form.workload_id,
                model=form.model_id,
                price_min=rate,
                price_max=rate,
                ramp=0,
                commit_window=COMMIT_BLOCKS,
                tokens_max=TOKENS_MAX,
                input_share=INPUT_SHARE,
                pace=PACE,
                check_ppm=form.check_ppm,
            )
        )
        for name in names
    )

    async def created(chain: ChainClient) -> dict[str, int]:
        outcome = await chain.submit(Utility.batch_all(calls=calls), keypair_from_suri(CUSTOMER_KEY))
        events = [event for event in outcome.events if isinstance(event, ServiceCreated)]
        if len(events) != len(calls):
            raise DevnetError(f"{len(events)} of {len(calls)} services were created: {outcome.error}")
        return {event.name.decode(): event.service for event in events}

    return stage.ask(created)


def offer_places(stage: Stage, services: Mapping[str, Sequence[int]], rate: int, places: int) -> None:
    """Let each provider offer places of its device for its services."""

    async def offered(chain: ChainClient) -> None:
        devices = await market_reads.devices(chain, await chain.finalized())
        device_of = {status.device.owner: status.id for status in devices}
        for name, numbers in services.items():
            device = device_of[dev_accounts.stash(name)]
            calls: list[Call] = []
            for service in numbers:
                calls.append(InferenceMarket.offer(device=device, service=service, ask=rate))
                calls.append(Sessions.offer_places(device=device, service=service, places=places))
            key = keypair_from_suri(f"//{name}//provider", Scheme.ED25519)
            outcome = await chain.submit(Utility.batch_all(calls=tuple(calls)), key)
            if not outcome.is_success:
                raise DevnetError(f"{name} cannot offer places: {outcome.error}")

    stage.ask(offered)
