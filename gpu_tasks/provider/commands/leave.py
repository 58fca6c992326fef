"""Leave: unregister devices, then unbond the stash. The stash signs."""

from __future__ import annotations

from typing import Any

from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    StashOptions,
    device_named,
    devices_of,
)
from gpu_tasks.provider.registration import (
    Planned,
    key_balance_facts,
    unbonding_facts,
    unregistration_calls,
    withdrawal_calls,
)
from runtime.frame.call import Call
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair


def unregister(provider_options: ProviderOptions, device: str, stash: StashOptions, dry_run: bool, yes: bool) -> None:
    """Unregister a device."""
    wallet_session = stash.session(provider_options)

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        device_status = device_named(device, await devices_of(chain_client, signing_key.account))
        # A failed call costs its fee, and the chain would only say that the device is busy.
        if device_status.device.assignment is not None or device_status.device.secured:
            raise ProviderError(
                f"0x{device_status.id.hex()} works on a unit, or secures an unsettled one. Run `ogpu-provider pause`, "
                "and try again in some blocks",
                code="device_busy",
            )
        return [Planned(chain_call, alters=True) for chain_call in unregistration_calls(device_status)]

    make(wallet_session, lambda: stash.key(provider_options), plan, dry_run=dry_run, is_agreed=yes)


def withdraw_bond(provider_options: ProviderOptions, stash: StashOptions, dry_run: bool, yes: bool) -> None:
    """End provider and candidacy, and unbond the stash."""
    wallet_session = stash.session(provider_options)

    async def plan(chain_client: ChainClient, signing_key: Keypair) -> list[Planned]:
        device_statuses = await devices_of(chain_client, signing_key.account)
        if device_statuses:
            listed_ids = ", ".join("0x" + device_status.id.hex() for device_status in device_statuses)
            raise ProviderError(
                f"devices are left. Run `ogpu-provider unregister` for each: {listed_ids}", code="devices_left"
            )
        chain_calls = await withdrawal_calls(chain_client, signing_key.account)
        if not chain_calls:
            wallet_session.output.facts(await _waiting(chain_client, signing_key.account))
        stays_facts = await key_balance_facts(chain_client, signing_key.account)
        return [
            Planned(
                chain_call, facts={**_begun_unbonding(chain_call), **stays_facts}, alters=_ends_something(chain_call)
            )
            for chain_call in chain_calls
        ]

    make(wallet_session, lambda: stash.key(provider_options), plan, dry_run=dry_run, is_agreed=yes)


def _ends_something(chain_call: Call) -> bool:
    """Return True if a call does more than take back free money."""
    return chain_call.name != "TrustStake.withdraw_unbonded"


def _begun_unbonding(chain_call: Call) -> dict[str, Any]:
    """Return the part of the bond that a call begins to unbond. No balance shows it."""
    if chain_call.name != "TrustStake.unbond":
        return {}
    return {"begins_to_unbond": Grains(chain_call.named_arguments["value"])}


async def _waiting(chain_client: ChainClient, provider_stash: bytes) -> dict[str, Any]:
    """Return the unbonding part of the bond and its end, for a stash without a call to make."""
    unbonding = await unbonding_facts(chain_client, provider_stash)
    return {"left": False, **unbonding} if unbonding else {"left": True, "calls": "none"}
