"""The steps of each Python client on the chain: a JSON object for each, and an exit at the first failure.

This module imports nothing of this project, so a client runs with only its library installed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

GRAINS_PER_OGPU = 10**8
UNKNOWN_BLOCK = "0x" + "11" * 32


class AsyncClient:
    """A library with awaitable methods, as the steps use it. Adapters of other kinds override the differences."""

    knows_runtime_apis = True
    """True if the library decodes this chain's runtime APIs by the metadata."""

    def __init__(self, library: Any, key: Any, newcomer: Any) -> None:
        """Take a connection, a funded sr25519 key and a fresh ed25519 key."""
        self.library, self.funded_key, self.newcomer = library, key, newcomer

    async def call_library(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the result of a library's method."""
        return await getattr(self.library, method)(*arguments, **options)

    async def runtime_call(self, api: str, method: str, *arguments: Any) -> Any:
        """Return the decoded answer of a runtime API."""
        return await self.call_library("runtime_call", api, method, list(arguments))

    async def storage_keys(self, pallet: str, item: str, *prefix: Any) -> list[Any]:
        """Return the decoded keys of a map under a prefix."""
        return [map_key async for map_key, _ in await self.call_library("query_map", pallet, item, list(prefix))]

    async def estimated_fee(self, call: Any) -> int:
        """Return the estimated fee of a call, by a runtime API that the library encodes itself."""
        return int((await self.call_library("get_payment_info", call, self.funded_key))["partial_fee"])

    async def receipt_property(self, receipt: Any, name: str) -> Any:
        """Return a property of a receipt."""
        return await getattr(receipt, name)

    def decoded_event(self, record: Any) -> dict[str, Any]:
        """Return the event of a decoded record."""
        event: dict[str, Any] = record["event"]
        return event


async def run(client: AsyncClient, *unknown_block_errors: type[Exception]) -> None:
    """Do all steps, in order. `not_there` are the library's errors for an unknown block."""
    key, newcomer = client.funded_key, client.newcomer
    metadata_modules = await client.call_library("get_metadata_modules")
    print_step("connected", chain=client.library.chain, metadata_pallets=len(metadata_modules))
    await read_storage(client)
    await estimate_fee(client)
    final_hash = await client.call_library("get_chain_finalised_head")
    balance_before = await free_at(client, final_hash)
    await transfer_and_check(client, "sr25519", key, newcomer, 50 * GRAINS_PER_OGPU)
    await transfer_and_check(client, "ed25519", newcomer, key, GRAINS_PER_OGPU)
    await bond_and_delegate(client)
    await call_and_fail(client)
    await read_old_block(client, final_hash, balance_before, unknown_block_errors)


async def storage_value(client: AsyncClient, pallet: str, item: str, *storage_keys: Any) -> Any:
    """Return a storage value."""
    return (await client.call_library("query", pallet, item, list(storage_keys))).value


async def free_at(client: AsyncClient, block_hash: str | None) -> int:
    """Return the free balance of the first key after a block."""
    address = client.funded_key.ss58_address
    account = await client.call_library("query", "System", "Account", [address], block_hash=block_hash)
    return int(account.value["data"]["free"])


async def read_storage(client: AsyncClient) -> None:
    """Read storage by name, a constant, and a map."""
    free_balance = await free_at(client, None)
    existential_deposit = (await client.call_library("get_constant", "Balances", "ExistentialDeposit")).value
    account_count = len(await client.storage_keys("System", "Account"))
    require(free_balance > 0 and existential_deposit > 0 and account_count > 1, "Alice has money, there are accounts")
    address = (await storage_value(client, "Session", "Validators"))[0]
    reserved_balance = (await storage_value(client, "System", "Account", address))["data"]["reserved"]
    held_entries = await storage_value(client, "Balances", "Holds", address)
    require(
        sum(entry["amount"] for entry in held_entries) == reserved_balance > 0,
        f"a validator's holds add up to its reserved balance: {held_entries}",
    )
    require(
        {"TrustStake": "Stake"} in [entry["id"] for entry in held_entries],
        f"a validator's stake among its holds: {held_entries}",
    )
    print_step("read", free=free_balance, existential_deposit=existential_deposit, accounts=account_count)


async def estimate_fee(client: AsyncClient) -> None:
    """Estimate a transfer's fee, and ask a runtime API for a nonce."""
    parameters = {"dest": client.newcomer.ss58_address, "value": GRAINS_PER_OGPU}
    composed_call = await client.call_library("compose_call", "Balances", "transfer_keep_alive", parameters)
    estimated_fee, address = await client.estimated_fee(composed_call), client.funded_key.ss58_address
    account_nonce = await client.runtime_call("AccountNonceApi", "account_nonce", address)
    require(estimated_fee > 0, f"the fee: {estimated_fee}")
    require(account_nonce == await client.call_library("get_account_nonce", address), f"the nonce: {account_nonce}")
    print_step("fee", fee=estimated_fee, nonce=account_nonce)


async def transfer_and_check(client: AsyncClient, key_kind: str, sender: Any, receiver: Any, amount: int) -> None:
    """Send, wait until final, and find the transfer among the decoded events."""
    parameters = {"dest": receiver.ss58_address, "value": amount}
    receipt = await submit_extrinsic(client, sender, "Balances", "transfer_keep_alive", parameters)
    require(await client.receipt_property(receipt, "is_success"), f"transfer by {key_kind}")
    transfer_events = await events_of(client, receipt, "Balances", "Transfer")
    expected = {"from": sender.ss58_address, "to": receiver.ss58_address, "amount": amount}
    require(transfer_events == [expected], f"the event of the transfer: {transfer_events}")
    block_number = await client.call_library("get_block_number", receipt.block_hash)
    final_height = await client.call_library("get_block_number", await client.call_library("get_chain_finalised_head"))
    require(final_height >= block_number, "the block is final")
    print_step(
        "transfer",
        kind=key_kind,
        block=block_number,
        final=final_height,
        fee=await client.receipt_property(receipt, "total_fee_amount"),
    )


async def bond_and_delegate(client: AsyncClient) -> None:
    """Bond, delegate, and try a move to the same validator. Compare state and runtime API, all by metadata."""
    signing_key, address = client.newcomer, client.newcomer.ss58_address
    validator = (await storage_value(client, "Session", "Validators"))[0]
    bonded_grains, delegated = 10 * GRAINS_PER_OGPU, 2 * GRAINS_PER_OGPU
    bonded = await submit_extrinsic(client, signing_key, "TrustStake", "bond", {"value": bonded_grains})
    require(await client.receipt_property(bonded, "is_success"), "a bond")
    receipt = await submit_extrinsic(
        client, signing_key, "TrustStake", "delegate", {"validator": validator, "value": delegated}
    )
    delegation_events = await events_of(client, receipt, "TrustStake", "Delegated")
    expected = {"delegator": address, "validator": validator, "amount": delegated}
    require(delegation_events == [expected], f"the event of the delegation: {delegation_events}")
    same_validator = {"source": validator, "target": validator, "value": delegated}
    module_error = await client.receipt_property(
        await submit_extrinsic(client, signing_key, "TrustStake", "redelegate", same_validator), "error_message"
    )
    require(module_error is not None and module_error["name"] == "SameValidator", f"error: {module_error}")
    require(await storage_value(client, "TrustStake", "Bonds", address) == bonded_grains, "the bond in the state")
    pool = (await storage_value(client, "TrustStake", "Pools", validator))["stake"]
    position = await storage_value(client, "TrustStake", "Delegations", address, validator)
    delegation_value = position["shares"] * pool["value"] // pool["shares"]
    require(delegation_value == delegated, f"the delegation by its shares: {delegation_value}")
    listed_validators = await client.storage_keys("TrustStake", "Delegations", address)
    require(listed_validators == [validator], f"the entries of an account by a prefix: {listed_validators}")
    reserved_balance = (await storage_value(client, "System", "Account", address))["data"]["reserved"]
    require(reserved_balance == bonded_grains, "a bond is reserved, a delegation lies with the chain")
    # Older libraries know only the runtime APIs that they ship, and not those in the metadata (V15).
    if client.knows_runtime_apis:
        summary = await client.runtime_call("OgpuApi", "stakes", address)
        values_by_validator = {entry["validator"]: entry["value"] for entry in summary["stakes"]}
        require(
            values_by_validator == {validator: delegated, address: bonded_grains},
            f"the answer of the runtime: {values_by_validator}",
        )
        locked_entries = await client.runtime_call("LocksApi", "held", address, None)
        require("Stake" in str(locked_entries), f"the locked money: {locked_entries}")
    print_step("stake", bond=bonded_grains, delegated=delegation_value)


async def call_and_fail(client: AsyncClient) -> None:
    """Make a call that must fail, and read the error's name from the metadata."""
    remark = await client.call_library("compose_call", "System", "remark", {"remark": "0x00"})
    receipt = await submit_extrinsic(client, client.newcomer, "Sudo", "sudo", {"call": remark})
    module_error = await client.receipt_property(receipt, "error_message")
    require(module_error is not None and module_error["name"] == "RequireSudo", f"error: {module_error}")
    print_step("module error", name=module_error["name"], docs=module_error["docs"])


async def read_old_block(
    client: AsyncClient, old_block: str, balance_before: int, unknown_block_errors: tuple[type[Exception], ...]
) -> None:
    """Read the balance at an old block, and expect an error, not zero, at an unknown block."""
    old_balance = await free_at(client, old_block)
    require(
        old_balance == balance_before != await free_at(client, None),
        f"the balance at an old block: {old_balance}, {balance_before}",
    )
    try:
        unknown_balance = await free_at(client, UNKNOWN_BLOCK)
    except unknown_block_errors as error:
        print_step("old block", free=old_balance, unknown=str(error))
    else:
        require(False, f"a balance of {unknown_balance} at a block that is not there")


async def submit_extrinsic(
    client: AsyncClient, signing_key: Any, pallet: str, function: str, parameters: dict[str, Any]
) -> Any:
    """Sign a mortal extrinsic, wait until it is final, and return its receipt."""
    composed_call = await client.call_library("compose_call", pallet, function, parameters)
    # Mortal, as wallets sign: a lost extrinsic must not be valid for ever.
    extrinsic = await client.call_library("create_signed_extrinsic", composed_call, signing_key, era={"period": 64})
    return await client.call_library("submit_extrinsic", extrinsic, wait_for_finalization=True)


async def events_of(client: AsyncClient, receipt: Any, pallet: str, name: str) -> list[Any]:
    """Return the attributes of the events of a kind that an extrinsic emitted."""
    emitted_events = [
        client.decoded_event(record) for record in await client.receipt_property(receipt, "triggered_events")
    ]
    return [
        event["attributes"] for event in emitted_events if (event["module_id"], event["event_id"]) == (pallet, name)
    ]


def require(condition: bool, requirement: str) -> None:
    """Exit with an error unless it holds."""
    if not condition:
        sys.exit(f"not as it should be: {requirement}")


def print_step(step: str, **step_facts: Any) -> None:
    """Print a step as one line of JSON."""
    # Flushed: stdout is a pipe here, and the parent acts on each line.
    print(json.dumps({"step": step, **step_facts}), flush=True)
