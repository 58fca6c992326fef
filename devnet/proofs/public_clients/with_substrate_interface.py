"""`substrate-interface`, unmodified, against a development node: python with_substrate_interface.py ws://HOST:PORT."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

from substrateinterface import ExtrinsicReceipt, Keypair, KeypairType, SubstrateInterface
from substrateinterface.exceptions import BlockNotFound, SubstrateRequestException

GRAINS_PER_OGPU = 10**8
UNKNOWN_BLOCK = "0x" + "11" * 32


def main(url: str) -> None:
    """All steps, in order."""
    chain = SubstrateInterface(url=url)
    alice = Keypair.create_from_uri("//Alice")
    newcomer = Keypair.create_from_seed("0x" + secrets.token_hex(32), crypto_type=KeypairType.ED25519)
    say("connected", chain=chain.chain, metadata_pallets=len(chain.get_metadata_modules()))
    read(chain, alice)
    estimate(chain, alice, newcomer)
    block = chain.get_chain_finalised_head()
    before = free_at(chain, alice, block)
    transfer(chain, "sr25519", alice, newcomer, 50 * GRAINS_PER_OGPU)
    transfer(chain, "ed25519", newcomer, alice, GRAINS_PER_OGPU)
    stake(chain, newcomer)
    refuse(chain, newcomer)
    look_back(chain, alice, block, before)


def read(chain: SubstrateInterface, who: Keypair) -> None:
    """Storage by name, a constant, and a map."""
    free = chain.query("System", "Account", [who.ss58_address]).value["data"]["free"]
    deposit = chain.get_constant("Balances", "ExistentialDeposit").value
    accounts = len(list(chain.query_map("System", "Account", max_results=10)))
    check(free > 0 and deposit > 0 and accounts > 1, "Alice has money, there are accounts")
    stash = chain.query("Session", "Validators").value[0]
    reserved = chain.query("System", "Account", [stash]).value["data"]["reserved"]
    held = chain.query("Balances", "Holds", [stash]).value
    check(sum(entry["amount"] for entry in held) == reserved > 0, f"what a validator holds is what is reserved: {held}")
    check({"TrustStake": "Stake"} in [entry["id"] for entry in held], f"a validator's stake among its holds: {held}")
    say("read", free=free, existential_deposit=deposit, accounts=accounts)


def estimate(chain: SubstrateInterface, who: Keypair, receiver: Keypair) -> None:
    """What a transfer would cost, and a runtime API."""
    parameters = {"dest": receiver.ss58_address, "value": GRAINS_PER_OGPU}
    call = chain.compose_call("Balances", "transfer_keep_alive", parameters)
    fee = int(chain.get_payment_info(call, who)["partialFee"])
    nonce = chain.runtime_call("AccountNonceApi", "account_nonce", [who.ss58_address]).value
    check(fee > 0, f"the fee: {fee}")
    check(nonce == chain.get_account_nonce(who.ss58_address), f"the nonce: {nonce}")
    say("fee", fee=fee, nonce=nonce)


def look_back(chain: SubstrateInterface, who: Keypair, block: str, before: int) -> None:
    """An old block has the balance of then, and a block that is not there has none: not nothing."""
    then = free_at(chain, who, block)
    check(then == before != free_at(chain, who, None), f"the balance at an old block: {then}, {before}")
    try:
        found = free_at(chain, who, UNKNOWN_BLOCK)
    except (SubstrateRequestException, BlockNotFound) as error:
        say("old block", free=then, unknown=str(error))
    else:
        check(False, f"a balance of {found} at a block that is not there")


def free_at(chain: SubstrateInterface, who: Keypair, block: str | None) -> int:
    """The free balance after a block."""
    account = chain.query("System", "Account", [who.ss58_address], block_hash=block).value
    return int(account["data"]["free"])


def transfer(chain: SubstrateInterface, kind: str, sender: Keypair, receiver: Keypair, amount: int) -> None:
    """Send, wait until final, and find the transfer among the decoded events."""
    receipt = submit(chain, sender, "Balances", "transfer_keep_alive", {"dest": receiver.ss58_address, "value": amount})
    check(receipt.is_success, f"transfer by {kind}")
    sent = [event for event in events(receipt) if (event["module_id"], event["event_id"]) == ("Balances", "Transfer")]
    expected = {"from": sender.ss58_address, "to": receiver.ss58_address, "amount": amount}
    check([event["attributes"] for event in sent] == [expected], f"the event of the transfer: {sent}")
    block = chain.get_block_number(receipt.block_hash)
    final = chain.get_block_number(chain.get_chain_finalised_head())
    check(final >= block, "the block is final")
    say("transfer", kind=kind, block=block, final=final, fee=receipt.total_fee_amount)


def stake(chain: SubstrateInterface, who: Keypair) -> None:
    """A bond of one's own, a delegation, less than the least; and what the state says of them, all by metadata."""
    validator = chain.query("Session", "Validators").value[0]
    bond, delegated = 10 * GRAINS_PER_OGPU, 2 * GRAINS_PER_OGPU
    check(submit(chain, who, "TrustStake", "bond", {"value": bond}).is_success, "a bond")
    receipt = submit(chain, who, "TrustStake", "delegate", {"validator": validator, "value": delegated})
    found = [event["attributes"] for event in events(receipt) if event["event_id"] == "Delegated"]
    check(
        found == [{"delegator": who.ss58_address, "validator": validator, "amount": delegated}], f"the event: {found}"
    )
    itself = {"source": validator, "target": validator, "value": delegated}
    refused = submit(chain, who, "TrustStake", "redelegate", itself)
    check(refused.error_message["name"] == "SameValidator", f"error: {refused.error_message}")
    check(chain.query("TrustStake", "Bonds", [who.ss58_address]).value == bond, "the bond in the state")
    pool = chain.query("TrustStake", "Pools", [validator]).value["stake"]
    position = chain.query("TrustStake", "Positions", [who.ss58_address, validator]).value
    worth = position["shares"] * pool["value"] // pool["shares"]
    check(worth == delegated, f"the delegation by its shares: {worth}")
    listed = [key.value for key, _ in chain.query_map("TrustStake", "Positions", [who.ss58_address])]
    check(listed == [validator], f"what an account has by a prefix: {listed}")
    reserved = chain.query("System", "Account", [who.ss58_address]).value["data"]["reserved"]
    check(reserved == bond, "a bond is reserved, a delegation lies with the chain")
    say("stake", bond=bond, delegated=worth)


def refuse(chain: SubstrateInterface, who: Keypair) -> None:
    """A call that must fail, and the error's name out of the metadata."""
    remark = chain.compose_call("System", "remark", {"remark": "0x00"})
    receipt = submit(chain, who, "Sudo", "sudo", {"call": remark})
    check(not receipt.is_success and receipt.error_message["name"] == "RequireSudo", f"error: {receipt.error_message}")
    say("module error", name=receipt.error_message["name"], docs=receipt.error_message["docs"])


def submit(
    chain: SubstrateInterface, who: Keypair, pallet: str, function: str, parameters: dict[str, Any]
) -> ExtrinsicReceipt:
    """Sign a mortal extrinsic and wait until it is final."""
    call = chain.compose_call(pallet, function, parameters)
    extrinsic = chain.create_signed_extrinsic(call, who, era={"period": 64})
    return chain.submit_extrinsic(extrinsic, wait_for_finalization=True)


def events(receipt: ExtrinsicReceipt) -> list[dict[str, Any]]:
    """The decoded events of an extrinsic."""
    return [event.value["event"] for event in receipt.triggered_events]


def check(holds: bool, what: str) -> None:
    """End with an error unless it holds."""
    if not holds:
        sys.exit(f"not as it should be: {what}")


def say(step: str, **facts: Any) -> None:
    """One line for the caller."""
    print(json.dumps({"step": step, **facts}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
