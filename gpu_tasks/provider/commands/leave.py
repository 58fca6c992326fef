"""Leave: unregister devices, then unbond the stash. The stash signs."""

from __future__ import annotations

from typing import Any

from gpu_tasks.data import market_reads, session_reads
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, StashOptions, device_named, devices_of
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


def unregister(options: ProviderOptions, device: str, stash: StashOptions, dry_run: bool, yes: bool) -> None:
    """Unregister a device."""
    session = stash.session(options)

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        status = device_named(device, await devices_of(client, signing_key.account))
        # A failed call costs its fee, and the chain would only say that the device is busy.
        if status.device.assignment is not None or status.device.secured:
            raise ProviderError(
                f"0x{status.id.hex()} works on a unit, or secures an unsettled one. Run `ogpu-provider pause`, "
                "and try again in some blocks",
                code="device_busy",
            )
        final = await client.finalized()
        everywhere = [(service, status.id) for service in await market_reads.services(client, final)]
        places = await session_reads.offered_places(client, everywhere, final)
        calls = unregistration_calls(status, [service for service, _ in places])
        return [Planned(call, alters=True) for call in calls]

    make(session, lambda: stash.key(options), plan, dry_run=dry_run, is_agreed=yes)


def withdraw_bond(options: ProviderOptions, stash: StashOptions, dry_run: bool, yes: bool) -> None:
    """End provider and candidacy, and unbond the stash."""
    session = stash.session(options)

    async def plan(client: ChainClient, signing_key: Keypair) -> list[Planned]:
        device_statuses = await devices_of(client, signing_key.account)
        if device_statuses:
            listed_ids = ", ".join("0x" + status.id.hex() for status in device_statuses)
            raise ProviderError(
                f"devices are left. Run `ogpu-provider unregister` for each: {listed_ids}", code="devices_left"
            )
        calls = await withdrawal_calls(client, signing_key.account)
        if not calls:
            session.output.facts(await _waiting(client, signing_key.account))
        key_facts = await key_balance_facts(client, signing_key.account)
        return [
            Planned(call, facts={**_begun_unbonding(call), **key_facts}, alters=_ends_something(call)) for call in calls
        ]

    make(session, lambda: stash.key(options), plan, dry_run=dry_run, is_agreed=yes)


def _ends_something(call: Call) -> bool:
    """Return True if a call does more than take back free money."""
    return call.name != "TrustStake.withdraw_unbonded"


def _begun_unbonding(call: Call) -> dict[str, Any]:
    """Return the part of the bond that a call begins to unbond. No balance shows it."""
    if call.name != "TrustStake.unbond":
        return {}
    return {"begins_to_unbond": Grains(call.named_arguments["value"])}


async def _waiting(client: ChainClient, stash: bytes) -> dict[str, Any]:
    """Return the unbonding part of the bond and its end, for a stash without a call to make."""
    unbonding = await unbonding_facts(client, stash)
    return {"left": False, **unbonding} if unbonding else {"left": True, "calls": "none"}
