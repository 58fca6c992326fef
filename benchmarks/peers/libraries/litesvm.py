"""LiteSVM (Solana's virtual machine in process, Rust, from the package `solders`): transfers one after the other.

`make peers` runs it with the Python of .venv-peers, which has no package of this project: python litesvm.py TRANSFERS
SENDERS

It prints one JSON object. LiteSVM checks signatures as Solana does. It has no block, no trie and no disk.
"""

import json
import sys
import time
from importlib.metadata import version

from solders.hash import Hash
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

ENDOWMENT = 10**11
VALUE = 10**6


def main(transfers: int, senders: int) -> None:
    """Sign all transfers, then execute all with the clock running, then check the receivers' balances."""
    chain = LiteSVM()
    keys = [Keypair() for _ in range(senders)]
    receivers = [Pubkey.new_unique() for _ in range(senders)]
    for account in [key.pubkey() for key in keys] + receivers:
        chain.airdrop(account, ENDOWMENT)
    signed = [
        _signed(keys[number % senders], receivers[number % senders], number // senders, chain.latest_blockhash())
        for number in range(transfers)
    ]
    started, cpu = time.perf_counter(), time.process_time()
    for transaction in signed:
        chain.send_transaction(transaction)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    each = transfers // senders
    sent = each * VALUE + each * (each - 1) // 2
    if any(chain.get_balance(receiver) != ENDOWMENT + sent for receiver in receivers):
        sys.exit("a receiver lacks a transfer")
    print(
        json.dumps(
            {
                "version": version("solders"),
                "per_second": round(transfers / seconds, 1),
                "cpu_us": round(cpu / transfers * 1e6, 1),
            }
        )
    )


def _signed(key: Keypair, receiver: Pubkey, number: int, recent: Hash) -> Transaction:
    """Return a signed transfer.

    Amounts differ, because Solana treats two equal transfers after one block as one transaction.
    """
    parameters = TransferParams(from_pubkey=key.pubkey(), to_pubkey=receiver, lamports=VALUE + number)
    return Transaction([key], Message.new_with_blockhash([transfer(parameters)], key.pubkey(), recent), recent)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
