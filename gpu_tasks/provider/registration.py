"""The calls that make a stash a provider, and those that end that: the missing ones, in the chain's order.

Joining: bond, validate, fund the provider key, register provider and device, offer. Leaving is the reverse. The calls
form one extrinsic of the stash, so all of them succeed or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cli.chain_time import read_time
from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, Provider, device_id_of
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.task_records import spendable
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.keys import PROVIDER_KEY_BALANCE, PROVIDER_KEY_LEAST
from runtime.cryptography import ss58
from runtime.frame.call import Call
from runtime.interface.staking_api import StakeSummary
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from wallet.amounts import Grains, format_amount
from wallet.calls.node_keys import NodeKeys
from wallet.client import ChainClient
from wallet.errors import WalletError

DEVICE_BOND = "device_bond"
"""The purpose of a new device's bond."""
FIRST_ASK = 1_000_000
"""The default ask of a new device, in grains per thousand output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The wanted registration. Amounts are in grains, keys are public keys of 32 bytes."""

    stash: bytes
    provider_key: bytes
    seal_key: bytes
    endpoint: str
    hardware: Hardware
    device_bond: int
    service: int
    ask: int | None
    """None keeps the device's ask, or sets `first_ask`."""
    first_ask: int = FIRST_ASK
    bond: int | None
    node_keys: NodeKeys | None
    commission_ppm: int

    @property
    def device(self) -> bytes:
        """The identifier of the device."""
        return device_id_of(self.stash, self.hardware.uuid_hash)


@dataclass(frozen=True, slots=True)
class Planned:
    """A call, and the grains of the stash that it locks or sends."""

    call: Call
    grains: int = 0
    purpose: str = ""
    stash: bytes | None = None
    """The owner of the grains; None for the signer."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts to show before the call is sent."""
    alters: bool = False
    """True if the call changes an existing record, which needs a confirmation."""


async def registration_calls(client: ChainClient, wanted: Registration) -> list[Planned]:
    """Return the missing calls, in order. Raise WalletError if a needed key or bond is not given."""
    planned: list[Planned] = []
    candidate = await client.read(TrustStake.candidates, wanted.stash)
    if candidate is None:
        planned += await _candidacy(client, wanted)
    elif candidate.provider_key != wanted.provider_key:
        raise WalletError(
            f"the stash has the provider key {ss58.encode(candidate.provider_key)}, but --provider-key is "
            f"{ss58.encode(wanted.provider_key)}. Give the file of the stash's key, or change the key with "
            "`ogpu-wallet validate`",
            code="other_provider_key",
        )
    else:
        planned += await _bonding(client, wanted)
    planned += await _key_funding(client, wanted)
    provider = await client.read(Devices.providers, wanted.stash)
    endpoint = wanted.endpoint.encode()
    if provider is None:
        call = Devices.register_provider(seal_key=wanted.seal_key, endpoint=endpoint)
        deposit = await client.read(Devices.provider_deposit.item)
        planned.append(Planned(call, deposit, "provider_deposit" if deposit else ""))
    elif (provider.seal_key, provider.endpoint) != (wanted.seal_key, endpoint):
        call = Devices.register_provider(seal_key=wanted.seal_key, endpoint=endpoint)
        planned.append(Planned(call, facts=_changes(provider, wanted), alters=True))
    device = wanted.device
    if await client.read(Devices.devices, device) is None:
        # Checked here for a clear sentence. The chain would refuse the whole extrinsic.
        await check_device_bond(client, wanted.hardware.kind, wanted.device_bond)
        uuid_hash, kind, bond = wanted.hardware.uuid_hash, wanted.hardware.kind, wanted.device_bond
        call = Devices.register_device(kind=kind, uuid_hash=uuid_hash, bond=bond)
        planned.append(Planned(call, bond, DEVICE_BOND, facts=await _beside(client, wanted.stash)))
    offer = await client.read(InferenceMarket.offers, wanted.service, device)
    # A repeated registration without an ask keeps the price.
    ask = wanted.ask if wanted.ask is not None else wanted.first_ask if offer is None else offer.ask
    if offer is None or offer.ask != ask:
        call = InferenceMarket.offer(device=device, service=wanted.service, ask=ask)
        if offer is None:
            planned.append(Planned(call, await client.read(InferenceMarket.offer_deposit.item), "offer_deposit"))
        else:
            change = f"{format_amount(offer.ask)} oGPU at present, then {format_amount(ask)} oGPU"
            planned.append(Planned(call, facts={"ask": change}, alters=True))
    return planned


async def check_device_bond(client: ChainClient, kind: DeviceClass, bond: int) -> None:
    """Raise WalletError for a bond below the minimum of a device's class, at the chain's current value."""
    minima = (Devices.cpu_bond_min, Devices.consumer_bond_min, Devices.datacenter_bond_min)
    least = await client.read(minima[kind].item)
    if bond < least:
        raise WalletError(
            f"a device of class {kind.name.lower()} needs a bond of at least {format_amount(least)} oGPU, not "
            f"{format_amount(bond)} oGPU",
            code="device_bond_too_small",
        )


async def endpoint_now(client: ChainClient, stash: bytes) -> str | None:
    """Return the present endpoint of a provider's blob store; None for another account."""
    provider = await client.read(Devices.providers, stash)
    return None if provider is None else provider.endpoint.decode("utf-8", "replace")


async def _beside(client: ChainClient, stash: bytes) -> dict[str, Any]:
    """Return the provider's existing devices, such as those of another machine or base path."""
    devices = await market_reads.devices_of(client, stash)
    return {"devices_until_now": ", ".join("0x" + status.id.hex() for status in devices)} if devices else {}


def _changes(provider: Provider, wanted: Registration) -> dict[str, Any]:
    """Return the changes to a provider's record."""
    changes: dict[str, Any] = {}
    before = provider.endpoint.decode("utf-8", "replace")
    if before != wanted.endpoint:
        changes["endpoint"] = f"{before} at present, then {wanted.endpoint}"
    if provider.seal_key != wanted.seal_key:
        changes["seal_key"] = "another key; inputs sealed to the old one can no longer be opened"
    return changes


async def _candidacy(client: ChainClient, wanted: Registration) -> list[Planned]:
    if wanted.node_keys is None:
        raise WalletError(
            "the stash is not a candidate yet. Give --node-keys, a file with the output of `ogpu-node key rotate`, "
            "and --bond if nothing is bonded",
            code="node_keys_missing",
        )
    planned = await _bonding(client, wanted)
    keys, proof = wanted.node_keys.keys, wanted.node_keys.proof
    planned.append(Planned(TrustStake.validate(keys, proof, wanted.provider_key, wanted.commission_ppm)))
    return planned


async def _key_funding(client: ChainClient, wanted: Registration) -> list[Planned]:
    """Return the transfer to a provider key with too little balance."""
    # A repeated registration must not send the balance again.
    if await spendable(client, wanted.provider_key) >= PROVIDER_KEY_LEAST:
        return []
    gift = Balances.transfer_keep_alive(dest=wanted.provider_key, value=PROVIDER_KEY_BALANCE)
    return [Planned(gift, PROVIDER_KEY_BALANCE, "to_the_provider_key")]


async def _bonding(client: ChainClient, wanted: Registration) -> list[Planned]:
    """Return the call that raises the stash's bond to the wanted one."""
    bonded = await client.read(TrustStake.bonds, wanted.stash)
    if wanted.bond is None or wanted.bond <= bonded:
        return []
    more = wanted.bond - bonded
    call = TrustStake.bond_extra(value=more) if bonded else TrustStake.bond(value=more)
    return [Planned(call, more, "stash_bond", facts={"bonded_until_now": Grains(bonded)} if bonded else {})]


async def what_is_there(client: ChainClient, wanted: Registration) -> dict[str, Any]:
    """Return the existing records of a stash; nothing for one that is no provider."""
    candidate = await client.read(TrustStake.candidates, wanted.stash)
    provider = await client.read(Devices.providers, wanted.stash)
    if candidate is None or provider is None:
        return {}
    device = await client.read(Devices.devices, wanted.device)
    return {
        "bonded": Grains(await client.read(TrustStake.bonds, wanted.stash)),
        "commission": f"{candidate.commission_ppm // 10_000} %",
        "endpoint": provider.endpoint.decode("utf-8", "replace"),
        "device_bond": None if device is None else Grains(device.bond),
    }


def unregistration_calls(status: DeviceStatus) -> list[Call]:
    """Return the calls that take a device out of the market and release its bond."""
    withdrawn = [InferenceMarket.withdraw_offer(device=status.id, service=number) for number, _ in status.offers]
    return [*withdrawn, Devices.unregister_device(device=status.id)]


async def withdrawal_calls(client: ChainClient, stash: bytes) -> list[Call]:
    """Return the calls that end a provider and candidate, and withdraw the stash's bond as far as possible.

    Unbonded money stays locked for the unbonding time, so the command must run twice: to begin, and after that time.
    """
    calls: list[Call] = []
    if await client.read(Devices.providers, stash) is not None:
        calls.append(Devices.unregister_provider())
    if await client.read(TrustStake.candidates, stash) is not None:
        calls.append(TrustStake.chill())
    bonded = await client.read(TrustStake.bonds, stash)
    if bonded:
        calls.append(TrustStake.unbond(value=bonded))
    summary: StakeSummary = await client.query("OgpuApi_stakes", stash)
    if summary.withdrawable:
        calls.append(TrustStake.withdraw_unbonded())
    return calls


async def key_balance_facts(client: ChainClient, stash: bytes) -> dict[str, Any]:
    """Return the balance of a candidate's provider key; leaving does not move it."""
    candidate = await client.read(TrustStake.candidates, stash)
    if candidate is None:
        return {}
    account = await client.read(System.account, candidate.provider_key)
    return {"stays_on_the_provider_key": Grains(account.data.free)}


async def unbonding_facts(client: ChainClient, stash: bytes) -> dict[str, Any]:
    """Return the unlocking part of a stash's bond and its release times, in the final state; else nothing."""
    at = await client.finalized()
    summary: StakeSummary = await client.query("OgpuApi_stakes", stash, at=at)
    if not summary.unlocking:
        return {}
    time, epochs = await read_time(client, at), sorted(chunk.until_epoch for chunk in summary.unlocking)
    return {
        "unlocking": Grains(sum(chunk.value for chunk in summary.unlocking)),
        "free_now": Grains(summary.withdrawable),
        "epoch": time.epoch,
        "free_from_epoch": epochs[0],
        "free_from": time.date_of(epochs[0]),
        "all_free_from_epoch": epochs[-1],
        "all_free_from": time.date_of(epochs[-1]),
        "then": "free the due amount with `ogpu-provider withdraw-bond` or `ogpu-wallet withdraw`",
    }
