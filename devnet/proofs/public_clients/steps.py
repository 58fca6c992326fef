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

    def __init__(self, library: Any, alice: Any, newcomer: Any) -> None:
        """Take a connection, a funded sr25519 key and a fresh ed25519 key."""
        self.library, self.alice, self.newcomer = library, alice, newcomer

    async def do(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Return the result of a library's method."""
        return await getattr(self.library, method)(*arguments, **named)

    async def runtime_call(self, api: str, method: str, *arguments: Any) -> Any:
        """Return the decoded answer of a runtime API."""
        return await self.do("runtime_call", api, method, list(arguments))

    async def keys(self, pallet: str, item: str, *prefix: Any) -> list[Any]:
        """Return the decoded keys of a map under a prefix."""
        return [key async for key, _ in await self.do("query_map", pallet, item, list(prefix))]

    async def fee(self, call: Any) -> int:
        """Return the estimated fee of a call, by a runtime API that the library encodes itself."""
        return int((await self.do("get_payment_info", call, self.alice))["partial_fee"])

    async def told(self, receipt: Any, name: str) -> Any:
        """Return a property of a receipt."""
        return await getattr(receipt, name)

    def event(self, record: Any) -> dict[str, Any]:
        """Return the event of a decoded record."""
        event: dict[str, Any] = record["event"]
        return event


async def run(client: AsyncClient, *not_there: type[Exception]) -> None:
    """Do all steps, in order. `not_there` are the library's errors for an unknown block."""
    alice, newcomer = client.alice, client.newcomer
    modules = await client.do("get_metadata_modules")
    say("connected", chain=client.library.chain, metadata_pallets=len(modules))
    await read(client)
    await estimate(client)
    block = await client.do("get_chain_finalised_head")
    before = await free_at(client, block)
    await transfer(client, "sr25519", alice, newcomer, 50 * GRAINS_PER_OGPU)
    await transfer(client, "ed25519", newcomer, alice, GRAINS_PER_OGPU)
    await stake(client)
    await refuse(client)
    await look_back(client, block, before, not_there)


async def value(client: AsyncClient, pallet: str, item: str, *keys: Any) -> Any:
    """Return a storage value."""
    return (await client.do("query", pallet, item, list(keys))).value


async def free_at(client: AsyncClient, block: str | None) -> int:
    """Return the free balance of the first key after a block."""
    address = client.alice.ss58_address
    account = await client.do("query", "System", "Account", [address], block_hash=block)
    return int(account.value["data"]["free"])


async def read(client: AsyncClient) -> None:
    """Read storage by name, a constant, and a map."""
    free = await free_at(client, None)
    deposit = (await client.do("get_constant", "Balances", "ExistentialDeposit")).value
    accounts = len(await client.keys("System", "Account"))
    check(free > 0 and deposit > 0 and accounts > 1, "Alice has money, there are accounts")
    stash = (await value(client, "Session", "Validators"))[0]
    reserved = (await value(client, "System", "Account", stash))["data"]["reserved"]
    held = await value(client, "Balances", "Holds", stash)
    check(sum(entry["amount"] for entry in held) == reserved > 0, f"what a validator holds is what is reserved: {held}")
    check({"TrustStake": "Stake"} in [entry["id"] for entry in held], f"a validator's stake among its holds: {held}")
    say("read", free=free, existential_deposit=deposit, accounts=accounts)


async def estimate(client: AsyncClient) -> None:
    """Estimate a transfer's fee, and ask a runtime API for a nonce."""
    parameters = {"dest": client.newcomer.ss58_address, "value": GRAINS_PER_OGPU}
    call = await client.do("compose_call", "Balances", "transfer_keep_alive", parameters)
    fee, address = await client.fee(call), client.alice.ss58_address
    nonce = await client.runtime_call("AccountNonceApi", "account_nonce", address)
    check(fee > 0, f"the fee: {fee}")
    check(nonce == await client.do("get_account_nonce", address), f"the nonce: {nonce}")
    say("fee", fee=fee, nonce=nonce)


async def transfer(client: AsyncClient, kind: str, sender: Any, receiver: Any, amount: int) -> None:
    """Send, wait until final, and find the transfer among the decoded events."""
    parameters = {"dest": receiver.ss58_address, "value": amount}
    receipt = await submit(client, sender, "Balances", "transfer_keep_alive", parameters)
    check(await client.told(receipt, "is_success"), f"transfer by {kind}")
    sent = await events(client, receipt, "Balances", "Transfer")
    expected = {"from": sender.ss58_address, "to": receiver.ss58_address, "amount": amount}
    check(sent == [expected], f"the event of the transfer: {sent}")
    block = await client.do("get_block_number", receipt.block_hash)
    final = await client.do("get_block_number", await client.do("get_chain_finalised_head"))
    check(final >= block, "the block is final")
    say("transfer", kind=kind, block=block, final=final, fee=await client.told(receipt, "total_fee_amount"))


async def stake(client: AsyncClient) -> None:
    """Bond, delegate, and try a move to the same validator. Compare state and runtime API, all by metadata."""
    who, address = client.newcomer, client.newcomer.ss58_address
    validator = (await value(client, "Session", "Validators"))[0]
    bond, delegated = 10 * GRAINS_PER_OGPU, 2 * GRAINS_PER_OGPU
    bonded = await submit(client, who, "TrustStake", "bond", {"value": bond})
    check(await client.told(bonded, "is_success"), "a bond")
    receipt = await submit(client, who, "TrustStake", "delegate", {"validator": validator, "value": delegated})
    told = await events(client, receipt, "TrustStake", "Delegated")
    expected = {"delegator": address, "validator": validator, "amount": delegated}
    check(told == [expected], f"the event of the delegation: {told}")
    itself = {"source": validator, "target": validator, "value": delegated}
    error = await client.told(await submit(client, who, "TrustStake", "redelegate", itself), "error_message")
    check(error is not None and error["name"] == "SameValidator", f"error: {error}")
    check(await value(client, "TrustStake", "Bonds", address) == bond, "the bond in the state")
    pool = (await value(client, "TrustStake", "Pools", validator))["stake"]
    position = await value(client, "TrustStake", "Delegations", address, validator)
    worth = position["shares"] * pool["value"] // pool["shares"]
    check(worth == delegated, f"the delegation by its shares: {worth}")
    listed = await client.keys("TrustStake", "Delegations", address)
    check(listed == [validator], f"what an account has by a prefix: {listed}")
    reserved = (await value(client, "System", "Account", address))["data"]["reserved"]
    check(reserved == bond, "a bond is reserved, a delegation lies with the chain")
    if client.knows_runtime_apis:
        summary = await client.runtime_call("OgpuApi", "stakes", address)
        said = {entry["validator"]: entry["value"] for entry in summary["stakes"]}
        check(said == {validator: delegated, address: bond}, f"what the runtime says: {said}")
        locked = await client.runtime_call("LocksApi", "held", address, None)
        check("Stake" in str(locked), f"what is locked: {locked}")
    say("stake", bond=bond, delegated=worth)


async def refuse(client: AsyncClient) -> None:
    """Make a call that must fail, and read the error's name from the metadata."""
    remark = await client.do("compose_call", "System", "remark", {"remark": "0x00"})
    receipt = await submit(client, client.newcomer, "Sudo", "sudo", {"call": remark})
    error = await client.told(receipt, "error_message")
    check(error is not None and error["name"] == "RequireSudo", f"error: {error}")
    say("module error", name=error["name"], docs=error["docs"])


async def look_back(client: AsyncClient, block: str, before: int, not_there: tuple[type[Exception], ...]) -> None:
    """Read the balance at an old block, and expect an error, not zero, at an unknown block."""
    then = await free_at(client, block)
    check(then == before != await free_at(client, None), f"the balance at an old block: {then}, {before}")
    try:
        found = await free_at(client, UNKNOWN_BLOCK)
    except not_there as error:
        say("old block", free=then, unknown=str(error))
    else:
        check(False, f"a balance of {found} at a block that is not there")


async def submit(client: AsyncClient, who: Any, pallet: str, function: str, parameters: dict[str, Any]) -> Any:
    """Sign a mortal extrinsic, wait until it is final, and return its receipt."""
    call = await client.do("compose_call", pallet, function, parameters)
    extrinsic = await client.do("create_signed_extrinsic", call, who, era={"period": 64})
    return await client.do("submit_extrinsic", extrinsic, wait_for_finalization=True)


async def events(client: AsyncClient, receipt: Any, pallet: str, name: str) -> list[Any]:
    """Return the attributes of the events of a kind that an extrinsic emitted."""
    emitted = [client.event(record) for record in await client.told(receipt, "triggered_events")]
    return [each["attributes"] for each in emitted if (each["module_id"], each["event_id"]) == (pallet, name)]


def check(holds: bool, what: str) -> None:
    """Exit with an error unless it holds."""
    if not holds:
        sys.exit(f"not as it should be: {what}")


def say(step: str, **facts: Any) -> None:
    """Print a step as one line of JSON."""
    print(json.dumps({"step": step, **facts}), flush=True)
