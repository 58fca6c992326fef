"""py-evm (the Ethereum Foundation's machine in Python): a chain imports blocks of transfers, as a syncing node does.

`make peers` runs it with the Python of .venv-peers, which has no package of this project: python py_evm.py BLOCKS EACH

It prints one JSON object. One chain makes the blocks, and another imports them from their bytes. coincurve
(libsecp256k1) recovers senders from signatures. The state is a Merkle-Patricia trie in memory.
"""

import json
import sys
import time
from importlib.metadata import version
from typing import Any

import rlp
from eth.chains.base import MiningChain
from eth.constants import BLANK_ROOT_HASH, ZERO_ADDRESS
from eth.db.atomic import AtomicDB
from eth.vm.forks.shanghai import ShanghaiVM
from eth_keys.datatypes import PrivateKey

GAS_OF_A_TRANSFER = 21_000
GAS_PRICE = 2 * 10**9
ENDOWMENT = 10**20
VALUE = 10**6
CHAIN = 1_337
FIRST_RECEIVER = 1 << 80
GENESIS_TIME = 1_700_000_000


def main(blocks: int, each: int) -> None:
    """Run blocks with one transfer from each of `each` senders."""
    senders = [PrivateKey((number + 1).to_bytes(32, "big")) for number in range(each)]
    receivers = [(FIRST_RECEIVER + number).to_bytes(20, "big") for number in range(each)]
    made = _made(blocks, senders, receivers)
    follower = _chain(senders)
    started, cpu = time.perf_counter(), time.process_time()
    for data in made:
        follower.import_block(rlp.decode(data, follower.get_vm().get_block_class()))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    state = follower.get_vm().state
    if any(state.get_balance(receiver) != blocks * VALUE for receiver in receivers):
        sys.exit("a receiver lacks a transfer")
    print(
        json.dumps(
            {
                "version": version("py-evm"),
                "per_second": round(blocks * each / seconds, 1),
                "cpu_us": round(cpu / blocks / each * 1e6, 1),
            }
        )
    )


def _chain(senders: list[Any]) -> Any:
    """Return a separate chain over an empty database, without proof of work."""
    rules = MiningChain.configure(
        __name__="Transfers",
        chain_id=CHAIN,
        vm_configuration=((0, ShanghaiVM),),
    )
    genesis = {
        "difficulty": 0, "extra_data": b"", "gas_limit": 100_000_000, "mix_hash": bytes(32), "nonce": bytes(8),
        "coinbase": ZERO_ADDRESS, "receipt_root": BLANK_ROOT_HASH, "timestamp": GENESIS_TIME,
        "transaction_root": BLANK_ROOT_HASH,
    }  # fmt: skip
    account = {"balance": ENDOWMENT, "nonce": 0, "code": b"", "storage": {}}
    state = {key.public_key.to_canonical_address(): account for key in senders}
    return rules.from_genesis(AtomicDB(), genesis, state)


def _made(blocks: int, senders: list[Any], receivers: list[bytes]) -> list[bytes]:
    """Return the bytes of blocks full of transfers."""
    chain, made = _chain(senders), []
    for nonce in range(blocks):
        signed = []
        for key, receiver in zip(senders, receivers, strict=True):
            unsigned = chain.create_unsigned_transaction(
                nonce=nonce, gas_price=GAS_PRICE, gas=GAS_OF_A_TRANSFER, to=receiver, value=VALUE, data=b""
            )
            signed.append(unsigned.as_signed_transaction(key, chain_id=CHAIN))
        block = chain.mine_all(signed, timestamp=GENESIS_TIME + 1 + nonce)[0].imported_block
        made.append(rlp.encode(block))
    return made


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
