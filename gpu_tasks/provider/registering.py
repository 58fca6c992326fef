"""Becoming a provider on a live chain: one extrinsic of the stash that bonds, offers itself, and registers a device."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import device_id
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.execution.gpu import Hardware
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.errors import WalletError

PROVIDER_KEY_BALANCE = 100_000_000
"""Grains that the provider key gets: duty calls that succeed are free, but need a balance that would cover them."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What to register. Amounts in grains, keys as public keys of 32 bytes."""

    stash: bytes
    provider_key: bytes
    seal_key: bytes
    endpoint: str
    hardware: Hardware
    device_bond: int
    service: int
    ask: int
    bond: int | None
    session_key: bytes | None
    vrf_key: bytes | None


async def registration_calls(client: ChainClient, wanted: Registration) -> list[Call]:
    """The calls that are still missing, in order; WalletError if a key or a bond is needed and not given."""
    calls: list[Call] = []
    if await client.read(TrustStake.candidates, wanted.stash) is None:
        calls += await _candidacy(client, wanted)
    provider = await client.read(Devices.providers, wanted.stash)
    endpoint = wanted.endpoint.encode()
    if provider is None or (provider.seal_key, provider.endpoint) != (wanted.seal_key, endpoint):
        calls.append(Devices.register_provider(seal_key=wanted.seal_key, endpoint=endpoint))
    device = device_id(wanted.stash, wanted.hardware.uuid_hash)
    if await client.read(Devices.devices, device) is None:
        uuid_hash, kind = wanted.hardware.uuid_hash, wanted.hardware.kind
        calls.append(Devices.register_device(kind=kind, uuid_hash=uuid_hash, bond=wanted.device_bond))
    offer = await client.read(InferenceMarket.offers, wanted.service, device)
    if offer is None or offer.ask != wanted.ask:
        calls.append(InferenceMarket.offer(device=device, service=wanted.service, ask=wanted.ask))
    return calls


async def _candidacy(client: ChainClient, wanted: Registration) -> list[Call]:
    if wanted.session_key is None or wanted.vrf_key is None:
        raise WalletError(
            "the stash is no candidate yet: give --session-key and --vrf-key of its node "
            "(`ogpu-node key generate` makes them), and --bond if nothing is bonded"
        )
    calls: list[Call] = []
    bonded = await client.read(TrustStake.stakes, wanted.stash, wanted.stash)
    if wanted.bond is not None and wanted.bond > bonded:
        calls.append((TrustStake.bond_extra if bonded else TrustStake.bond)(value=wanted.bond - bonded))
    keys = {"session_key": wanted.session_key, "vrf_key": wanted.vrf_key, "provider_key": wanted.provider_key}
    calls.append(TrustStake.validate(**keys, commission_ppm=0))
    calls.append(Balances.transfer_keep_alive(dest=wanted.provider_key, value=PROVIDER_KEY_BALANCE))
    return calls
