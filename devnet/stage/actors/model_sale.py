"""The sale of a model on a devnet: its service, and the offers of its providers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devnet.stage.network import Stage
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.client import ChainClient


@dataclass(frozen=True, slots=True)
class ModelSale:
    """The terms of a model's service. Prices are oGPU per thousand tokens, as users type them."""

    workload: str
    name: str
    owner: str
    providers: Sequence[str]
    commit_blocks: int = 120
    """A daemon's first request loads the model: some seconds on an idle machine, a minute on a busy one."""
    tokens_max: int = 256
    """The most output tokens of a request."""
    pace: int = 0
    ask: str = "0.01"
    """The price begins here, so no provider waits for it to rise."""
    price_max: str = "0.05"
    ramp_blocks: int = 10
    input_share: int = 0
    """The weight of an input token, in percent of an output token."""
    places: int = 0
    """The sessions that each provider serves at once."""


def sell_model(stage: Stage, sale: ModelSale) -> int:
    """Create a service for the model, let its providers offer it, and return its number."""
    created = json.loads(
        stage.ogpu(
            "offer create-service",
            *("--key", f"//{sale.owner}", "--workload", sale.workload, "--name", sale.name),
            *("--price-min", sale.ask, "--price-max", sale.price_max, "--ramp", str(sale.ramp_blocks)),
            *("--commit-window", str(sale.commit_blocks), "--pace", str(sale.pace)),
            *("--max-tokens", str(sale.tokens_max), "--input-share", str(sale.input_share), "--yes"),
        )
    )
    devices = stage.ask(_devices_by_owner)
    for name in sale.providers:
        device = "0x" + devices[dev_accounts.stash(name)].hex()
        places = ("--places", str(sale.places)) if sale.places else ()
        stage.provider(name, "offer", device, "--service", str(created["service"]), "--ask", sale.ask, *places)
    return int(created["service"])


def offer_places(stage: Stage, service: int, ask: str, places: Mapping[str, int]) -> None:
    """Let providers that offer a service serve so many sessions at once."""
    devices = stage.ask(_devices_by_owner)
    for name, count in places.items():
        device = "0x" + devices[dev_accounts.stash(name)].hex()
        options = ("--service", str(service), "--ask", ask, "--places", str(count))
        stage.provider(name, "offer", device, *options)


async def _devices_by_owner(chain: ChainClient) -> dict[bytes, bytes]:
    devices = await market_reads.devices(chain, await chain.finalized())
    return {status.device.owner: status.id for status in devices}
