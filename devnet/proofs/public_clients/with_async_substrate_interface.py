"""`async-substrate-interface`, unmodified, against a development node: python with_async_substrate_interface.py ws://HOST:PORT.

That library has no keys: it takes any object that signs. Ours asks the caller: a line `{"sign": key, "payload": hex}`
goes out, and the signature comes back on stdin in hexadecimal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from async_substrate_interface import AsyncExtrinsicReceipt, AsyncSubstrateInterface
from async_substrate_interface.errors import BlockNotFound, SubstrateRequestException

GRAINS_PER_OGPU = 10**8
UNKNOWN_BLOCK = "0x" + "11" * 32


class AskedKey:
    """A key that somebody else holds; what the library calls a keypair."""

    ss58_format = 42

    def __init__(self, name: str) -> None:
        """Ask for the public half."""
        self.name = name
        answer = ask({"public": name})
        self.public_key = bytes.fromhex(answer["public_key"])
        self.ss58_address = answer["address"]
        self.crypto_type: int = answer["crypto_type"]  # as the library numbers them: 0 ed25519, 1 sr25519

    def sign(self, payload: bytes) -> bytes:
        """The signature alone, without its kind."""
        return bytes.fromhex(ask({"sign": self.name, "payload": bytes(payload).hex()})["signature"])


async def main(url: str) -> None:
    """All steps, in order."""
    async with AsyncSubstrateInterface(url, ss58_format=42, chain_name="Development") as chain:
        alice = AskedKey("sr25519")
        newcomer = AskedKey("ed25519")
        say("connected", chain=chain.chain, metadata_pallets=len(await chain.get_metadata_modules()))
        await read(chain, alice)
        await estimate(chain, alice, newcomer)
        block = await chain.get_chain_finalised_head()
        before = await free_at(chain, alice, block)
        await transfer(chain, alice, newcomer, 50 * GRAINS_PER_OGPU)
        await transfer(chain, newcomer, alice, GRAINS_PER_OGPU)
        await stake(chain, newcomer)
        await refuse(chain, newcomer)
        await look_back(chain, alice, block, before)


async def read(chain: AsyncSubstrateInterface, who: AskedKey) -> None:
    """Storage by name, a constant, and a map."""
    account = (await chain.query("System", "Account", [who.ss58_address])).value
    deposit = (await chain.get_constant("Balances", "ExistentialDeposit")).value
    accounts = [key async for key, _ in await chain.query_map("System", "Account")]
    check(account["data"]["free"] > 0 and deposit > 0 and len(accounts) > 1, "Alice has money, there are accounts")
    stash = (await chain.query("Session", "Validators")).value[0]
    reserved = (await chain.query("System", "Account", [stash])).value["data"]["reserved"]
    held = (await chain.query("Balances", "Holds", [stash])).value
    check(sum(entry["amount"] for entry in held) == reserved > 0, f"what a validator holds is what is reserved: {held}")
    say("read", free=account["data"]["free"], existential_deposit=deposit, accounts=len(accounts))


async def estimate(chain: AsyncSubstrateInterface, who: AskedKey, receiver: AskedKey) -> None:
    """What a transfer would cost, by a runtime API that the library encodes itself, and another such API."""
    parameters = {"dest": receiver.ss58_address, "value": GRAINS_PER_OGPU}
    call = await chain.compose_call("Balances", "transfer_keep_alive", parameters)
    info = await chain.get_payment_info(call, who)
    nonce = await chain.runtime_call("AccountNonceApi", "account_nonce", [who.ss58_address])
    check(info["partial_fee"] > 0, f"the fee: {info}")
    check(nonce == await chain.get_account_nonce(who.ss58_address), f"the nonce: {nonce}")
    say("fee", fee=info["partial_fee"], nonce=nonce)


async def look_back(chain: AsyncSubstrateInterface, who: AskedKey, block: str, before: int) -> None:
    """An old block has the balance of then, and a block that is not there has none: not nothing."""
    then = await free_at(chain, who, block)
    check(then == before != await free_at(chain, who, None), f"the balance at an old block: {then}, {before}")
    try:
        found = await free_at(chain, who, UNKNOWN_BLOCK)
    except (SubstrateRequestException, BlockNotFound) as error:
        say("old block", free=then, unknown=str(error))
    else:
        check(False, f"a balance of {found} at a block that is not there")


async def free_at(chain: AsyncSubstrateInterface, who: AskedKey, block: str | None) -> int:
    """The free balance after a block."""
    account = (await chain.query("System", "Account", [who.ss58_address], block_hash=block)).value
    return int(account["data"]["free"])


async def transfer(chain: AsyncSubstrateInterface, sender: AskedKey, receiver: AskedKey, amount: int) -> None:
    """Send, wait until final, and find the transfer among the decoded events."""
    receipt = await submit(
        chain, sender, "Balances", "transfer_keep_alive", {"dest": receiver.ss58_address, "value": amount}
    )
    check(await receipt.is_success, f"transfer by {sender.name}")
    found = [event["event"] for event in await receipt.triggered_events]
    sent = [event for event in found if (event["module_id"], event["event_id"]) == ("Balances", "Transfer")]
    expected = {"from": sender.ss58_address, "to": receiver.ss58_address, "amount": amount}
    check([event["attributes"] for event in sent] == [expected], f"the event of the transfer: {sent}")
    block = await chain.get_block_number(receipt.block_hash)
    final = await chain.get_block_number(await chain.get_chain_finalised_head())
    check(final >= block, "the block is final")
    say("transfer", kind=sender.name, block=block, final=final, fee=await receipt.total_fee_amount)


async def stake(chain: AsyncSubstrateInterface, who: AskedKey) -> None:
    """A bond of one's own, a delegation; and what the state and a runtime API say of them, all by metadata."""
    validator = (await chain.query("Session", "Validators")).value[0]
    bond, delegated = 10 * GRAINS_PER_OGPU, 2 * GRAINS_PER_OGPU
    check(await (await submit(chain, who, "TrustStake", "bond", {"value": bond})).is_success, "a bond")
    receipt = await submit(chain, who, "TrustStake", "delegate", {"validator": validator, "value": delegated})
    check(await receipt.is_success, "a delegation")
    pool = (await chain.query("TrustStake", "Pools", [validator])).value["stake"]
    position = (await chain.query("TrustStake", "Positions", [who.ss58_address, validator])).value
    worth = position["shares"] * pool["value"] // pool["shares"]
    check((await chain.query("TrustStake", "Bonds", [who.ss58_address])).value == bond, "the bond in the state")
    check(worth == delegated, f"the delegation by its shares: {worth}")
    summary = await chain.runtime_call("OgpuApi", "stakes", [who.ss58_address])
    said = {entry["validator"]: entry["value"] for entry in summary["stakes"]}
    check(said == {validator: delegated, who.ss58_address: bond}, f"what the runtime says: {said}")
    locked = await chain.runtime_call("LocksApi", "held", [who.ss58_address, None])
    check("Stake" in str(locked), f"what is locked: {locked}")
    say("stake", bond=bond, delegated=worth)


async def refuse(chain: AsyncSubstrateInterface, who: AskedKey) -> None:
    """A call that must fail, and the error's name out of the metadata."""
    remark = await chain.compose_call("System", "remark", {"remark": "0x00"})
    receipt = await submit(chain, who, "Sudo", "sudo", {"call": remark})
    error = await receipt.error_message
    check(error is not None and error["name"] == "RequireSudo", f"error: {error}")
    say("module error", name=error["name"], docs=error["docs"])


async def submit(
    chain: AsyncSubstrateInterface, who: AskedKey, pallet: str, function: str, parameters: dict[str, Any]
) -> AsyncExtrinsicReceipt:
    """Sign a mortal extrinsic and wait until it is final."""
    call = await chain.compose_call(pallet, function, parameters)
    extrinsic = await chain.create_signed_extrinsic(call, who, era={"period": 64})
    return await chain.submit_extrinsic(extrinsic, wait_for_finalization=True)


def ask(question: dict[str, Any]) -> dict[str, Any]:
    """The caller's answer."""
    print(json.dumps(question), flush=True)
    answer: dict[str, Any] = json.loads(sys.stdin.readline())
    return answer


def check(holds: bool, what: str) -> None:
    """End with an error unless it holds."""
    if not holds:
        sys.exit(f"not as it should be: {what}")


def say(step: str, **facts: Any) -> None:
    """One line for the caller."""
    print(json.dumps({"step": step, **facts}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
