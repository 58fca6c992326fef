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

GRAINS_PER_OGPU = 10**8


class AskedKey:
    """A key that somebody else holds; what the library calls a keypair."""

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
        await transfer(chain, alice, newcomer, 5 * GRAINS_PER_OGPU)
        await transfer(chain, newcomer, alice, GRAINS_PER_OGPU)
        await refuse(chain, newcomer)


async def read(chain: AsyncSubstrateInterface, who: AskedKey) -> None:
    """Storage by name, a constant, and a map."""
    account = (await chain.query("System", "Account", [who.ss58_address])).value
    deposit = (await chain.get_constant("Balances", "ExistentialDeposit")).value
    accounts = [key async for key, _ in await chain.query_map("System", "Account")]
    check(account["data"]["free"] > 0 and deposit > 0 and len(accounts) > 1, "Alice has money, there are accounts")
    say("read", free=account["data"]["free"], existential_deposit=deposit, accounts=len(accounts))


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
