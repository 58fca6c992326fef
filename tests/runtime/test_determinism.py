"""Roots depend only on the input: two interpreters with other hash seeds agree, byte for byte."""

import os
import subprocess
import sys

PROGRAM = """
import sys
sys.path[:0] = [".", "tests/support"]
from small_chain import ALICE, BOB, CHARLIE, SmallChain
from runtime.blocks.block import HEADER
from runtime.cryptography.signatures import Scheme
from runtime.pallets.balances import Balances
chain = SmallChain()
for height in range(3):
    call = Balances.transfer_keep_alive(dest=CHARLIE.account, value=10**8 + height)
    chain.author(chain.signed(BOB, call), verifier=lambda *_: True)
    print(HEADER.encode(chain.head).hex())
"""


def headers(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def test_two_hash_seeds_give_the_same_headers() -> None:
    first = headers("1")
    assert first == headers("2")
    assert len(first.splitlines()) == 3
