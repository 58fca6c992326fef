"""The calls that make a stash a provider, and those that end that: the missing ones, in the chain's order.

Joining: bond, validate, fund the provider key, register provider and device, offer. Leaving is the reverse. The calls
form one extrinsic of the stash, so all of them succeed or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cli.chain_time import read_time
from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, Provider, device_id_of
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
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


async def registration_calls(chain_client: ChainClient, registration: Registration) -> list[Planned]:
    """Return the missing calls, in order. Raise WalletError if a needed key or bond is not given."""
    planned_calls: list[Planned] = []
    candidate = await chain_client.read(TrustStake.candidates, registration.stash)
    if candidate is None:
        planned_calls += await _candidacy_calls(chain_client, registration)
    elif candidate.provider_key != registration.provider_key:
        raise WalletError(
            f"the stash has the provider key {ss58.encode(candidate.provider_key)}, but --provider-key is "
            f"{ss58.encode(registration.provider_key)}. Give the file of the stash's key, or change the key with "
            "`ogpu-wallet validate`",
            code="other_provider_key",
        )
    else:
        planned_calls += await _bonding_calls(chain_client, registration)
    planned_calls += await _key_funding_calls(chain_client, registration)
    provider = await chain_client.read(Devices.providers, registration.stash)
    endpoint = registration.endpoint.encode()
    if provider is None:
        chain_call = Devices.register_provider(seal_key=registration.seal_key, endpoint=endpoint)
        deposit_grains = await chain_client.read(Devices.provider_deposit.item)
        planned_calls.append(Planned(chain_call, deposit_grains, "provider_deposit" if deposit_grains else ""))
    # The call replaces both fields, so it is made only if one of them differs.
    elif (provider.seal_key, provider.endpoint) != (registration.seal_key, endpoint):
        chain_call = Devices.register_provider(seal_key=registration.seal_key, endpoint=endpoint)
        planned_calls.append(Planned(chain_call, facts=_record_changes(provider, registration), alters=True))
    device = registration.device
    if await chain_client.read(Devices.devices, device) is None:
        # Checked here for a clear sentence. The chain would refuse the whole extrinsic.
        await check_device_bond(chain_client, registration.hardware.kind, registration.device_bond)
        hardware, bond = registration.hardware, registration.device_bond
        chain_call = Devices.register_device(kind=hardware.kind, uuid_hash=hardware.uuid_hash, bond=bond)
        planned_calls.append(
            Planned(chain_call, bond, DEVICE_BOND, facts=await _existing_devices(chain_client, registration.stash))
        )
    present_offer = await chain_client.read(InferenceMarket.offers, registration.service, device)
    # A repeated registration without an ask keeps the price.
    asked_grains = registration.first_ask if present_offer is None else present_offer.ask
    if registration.ask is not None:
        asked_grains = registration.ask
    if present_offer is None or present_offer.ask != asked_grains:
        chain_call = InferenceMarket.offer(device=device, service=registration.service, ask=asked_grains)
        if present_offer is None:
            planned_calls.append(
                Planned(chain_call, await chain_client.read(InferenceMarket.offer_deposit.item), "offer_deposit")
            )
        else:
            change_text = f"{format_amount(present_offer.ask)} oGPU at present, then {format_amount(asked_grains)} oGPU"
            planned_calls.append(Planned(chain_call, facts={"ask": change_text}, alters=True))
    return planned_calls


async def check_device_bond(chain_client: ChainClient, device_class: DeviceClass, bond_grains: int) -> None:
    """Raise WalletError for a bond below the minimum of a device's class, at the chain's current value."""
    bond_minima = (Devices.cpu_bond_min, Devices.consumer_bond_min, Devices.datacenter_bond_min)
    least_grains = await chain_client.read(bond_minima[device_class].item)
    # The chain's refusal names neither the class nor the minimum.
    if bond_grains < least_grains:
        raise WalletError(
            f"a device of class {device_class.name.lower()} needs a bond of at least {format_amount(least_grains)} "
            f"oGPU, not {format_amount(bond_grains)} oGPU",
            code="device_bond_too_small",
        )


async def endpoint_now(chain_client: ChainClient, provider_stash: bytes) -> str | None:
    """Return the present endpoint of a provider's blob store; None for another account."""
    provider = await chain_client.read(Devices.providers, provider_stash)
    return None if provider is None else provider.endpoint.decode("utf-8", "replace")


async def _existing_devices(chain_client: ChainClient, provider_stash: bytes) -> dict[str, Any]:
    """Return the provider's existing devices, such as those of another machine or base path."""
    device_statuses = await market_reads.devices_of(chain_client, provider_stash)
    if not device_statuses:
        return {}
    return {"devices_until_now": ", ".join("0x" + device_status.id.hex() for device_status in device_statuses)}


def _record_changes(provider: Provider, registration: Registration) -> dict[str, Any]:
    """Return the changes to a provider's record."""
    changes: dict[str, Any] = {}
    present_endpoint = provider.endpoint.decode("utf-8", "replace")
    if present_endpoint != registration.endpoint:
        changes["endpoint"] = f"{present_endpoint} at present, then {registration.endpoint}"
    if provider.seal_key != registration.seal_key:
        changes["seal_key"] = "another key; inputs sealed to the old one can no longer be opened"
    return changes


async def _candidacy_calls(chain_client: ChainClient, registration: Registration) -> list[Planned]:
    if registration.node_keys is None:
        raise WalletError(
            "the stash is not a candidate yet. Give --node-keys, a file with the output of `ogpu-node key rotate`, "
            "and --bond if nothing is bonded",
            code="node_keys_missing",
        )
    planned_calls = await _bonding_calls(chain_client, registration)
    session_keys, key_proof = registration.node_keys.keys, registration.node_keys.proof
    planned_calls.append(
        Planned(TrustStake.validate(session_keys, key_proof, registration.provider_key, registration.commission_ppm))
    )
    return planned_calls


async def _key_funding_calls(chain_client: ChainClient, registration: Registration) -> list[Planned]:
    """Return the transfer to a provider key with too little balance."""
    # A repeated registration must not send the balance again.
    if await spendable(chain_client, registration.provider_key) >= PROVIDER_KEY_LEAST:
        return []
    funding_call = Balances.transfer_keep_alive(dest=registration.provider_key, value=PROVIDER_KEY_BALANCE)
    return [Planned(funding_call, PROVIDER_KEY_BALANCE, "to_the_provider_key")]


async def _bonding_calls(chain_client: ChainClient, registration: Registration) -> list[Planned]:
    """Return the call that raises the stash's bond to the wanted one."""
    bonded_grains = await chain_client.read(TrustStake.bonds, registration.stash)
    if registration.bond is None or registration.bond <= bonded_grains:
        return []
    missing_grains = registration.bond - bonded_grains
    chain_call = TrustStake.bond_extra(value=missing_grains) if bonded_grains else TrustStake.bond(value=missing_grains)
    return [
        Planned(
            chain_call,
            missing_grains,
            "stash_bond",
            facts={"bonded_until_now": Grains(bonded_grains)} if bonded_grains else {},
        )
    ]


async def what_is_there(chain_client: ChainClient, registration: Registration) -> dict[str, Any]:
    """Return the existing records of a stash; nothing for one that is no provider."""
    candidate = await chain_client.read(TrustStake.candidates, registration.stash)
    provider = await chain_client.read(Devices.providers, registration.stash)
    if candidate is None or provider is None:
        return {}
    device_record = await chain_client.read(Devices.devices, registration.device)
    return {
        "bonded": Grains(await chain_client.read(TrustStake.bonds, registration.stash)),
        "commission": f"{candidate.commission_ppm // 10_000} %",
        "endpoint": provider.endpoint.decode("utf-8", "replace"),
        "device_bond": None if device_record is None else Grains(device_record.bond),
    }


def unregistration_calls(device_status: DeviceStatus, places: Iterable[int]) -> list[Call]:
    """Return the calls that take a device out of the market and release its bond.

    `places` are the services with its places, which outlive its offers.
    """
    placeless = [Sessions.offer_places(device=device_status.id, service=service, places=0) for service in places]
    withdrawn = [
        InferenceMarket.withdraw_offer(device=device_status.id, service=service_number)
        for service_number, _ in device_status.offers
    ]
    return [*placeless, *withdrawn, Devices.unregister_device(device=device_status.id)]


async def withdrawal_calls(chain_client: ChainClient, provider_stash: bytes) -> list[Call]:
    """Return the calls that end a provider and candidate, and withdraw the stash's bond as far as possible.

    Unbonded money stays locked for the unbonding time, so the command must run twice: to begin, and after that time.
    """
    chain_calls: list[Call] = []
    if await chain_client.read(Devices.providers, provider_stash) is not None:
        chain_calls.append(Devices.unregister_provider())
    if await chain_client.read(TrustStake.candidates, provider_stash) is not None:
        chain_calls.append(TrustStake.chill())
    bonded_grains = await chain_client.read(TrustStake.bonds, provider_stash)
    if bonded_grains:
        chain_calls.append(TrustStake.unbond(value=bonded_grains))
    stake_summary: StakeSummary = await chain_client.query("OgpuApi_stakes", provider_stash)
    if stake_summary.withdrawable:
        chain_calls.append(TrustStake.withdraw_unbonded())
    return chain_calls


async def key_balance_facts(chain_client: ChainClient, provider_stash: bytes) -> dict[str, Any]:
    """Return the balance of a candidate's provider key; leaving does not move it."""
    candidate = await chain_client.read(TrustStake.candidates, provider_stash)
    if candidate is None:
        return {}
    key_account = await chain_client.read(System.account, candidate.provider_key)
    return {"stays_on_the_provider_key": Grains(key_account.data.free)}


async def unbonding_facts(chain_client: ChainClient, provider_stash: bytes) -> dict[str, Any]:
    """Return the unlocking part of a stash's bond and its release times, in the final state; else nothing."""
    block_hash = await chain_client.finalized()
    stake_summary: StakeSummary = await chain_client.query("OgpuApi_stakes", provider_stash, at=block_hash)
    if not stake_summary.unlocking:
        return {}
    chain_time, epoch_count = (
        await read_time(chain_client, block_hash),
        sorted(unlocking_chunk.until_epoch for unlocking_chunk in stake_summary.unlocking),
    )
    return {
        "unlocking": Grains(sum(unlocking_chunk.value for unlocking_chunk in stake_summary.unlocking)),
        "free_now": Grains(stake_summary.withdrawable),
        "epoch": chain_time.epoch,
        "free_from_epoch": epoch_count[0],
        "free_from": chain_time.date_of(epoch_count[0]),
        "all_free_from_epoch": epoch_count[-1],
        "all_free_from": chain_time.date_of(epoch_count[-1]),
        "then": "free the due amount with `ogpu-provider withdraw-bond` or `ogpu-wallet withdraw`",
    }
