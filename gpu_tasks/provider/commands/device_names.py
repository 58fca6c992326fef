"""Which device a text means: the hexadecimal beginning of one of the provider's own."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.commands.options import ProviderError
from wallet.client import ChainClient
from wallet.keypair import Keypair


async def devices_of(client: ChainClient, stash: bytes) -> list[DeviceStatus]:
    """The devices of a stash."""
    return list(await market_reads.devices_of(client, stash))


async def own_devices(client: ChainClient, key: Keypair) -> list[DeviceStatus]:
    """The devices that a provider key works for; ProviderError if it is nobody's."""
    stash = await market_reads.stash_of(client, key.public_key)
    if stash is None:
        raise ProviderError(f"{key.address} is no provider key on {client.chain}; run `ogpu-provider register`")
    return await devices_of(client, stash)


def device_named(text: str, own: Sequence[DeviceStatus]) -> DeviceStatus:
    """The device whose identifier begins so; ProviderError that lists the provider's own if none, or several, do."""
    digits = text.lower().removeprefix("0x")
    # `ogpu providers` and logs print identifiers shortened: a beginning that only one device has is enough.
    found = [status for status in own if digits and status.id.hex().startswith(digits)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join("0x" + status.id.hex() for status in (found or own)) or "none"
    if found:
        raise ProviderError(f"{text!r} is the beginning of several of your devices: {listed}")
    raise ProviderError(f"{text!r} is none of your devices; they are: {listed}")
