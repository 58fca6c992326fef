"""`async-substrate-interface`, unmodified: run as a module, with the address of a node.

The library has no keys, and accepts any object that signs. The signer here asks the caller: it prints a line `{"sign":
key, "payload": hex}`, and reads the signature from stdin in hexadecimal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from async_substrate_interface import AsyncSubstrateInterface
from async_substrate_interface.errors import BlockNotFound, SubstrateRequestException

from devnet.proofs.public_clients.steps import AsyncClient, run


class AskedKey:
    """A key of the caller, in the form of the library's keypair."""

    # The generic prefix of Substrate addresses (SS58 registry).
    ss58_format = 42

    def __init__(self, key_name: str) -> None:
        """Ask for the public half."""
        self.name = key_name
        caller_answer = ask_caller({"public": key_name})
        self.public_key = bytes.fromhex(caller_answer["public_key"])
        self.ss58_address = caller_answer["address"]
        self.crypto_type: int = caller_answer["crypto_type"]  # the library's numbers: 0 ed25519, 1 sr25519

    def sign(self, payload: bytes) -> bytes:
        """Return the signature without its kind."""
        return bytes.fromhex(ask_caller({"sign": self.name, "payload": bytes(payload).hex()})["signature"])


def ask_caller(question: dict[str, Any]) -> dict[str, Any]:
    """Return the caller's answer."""
    # The key stays with the parent, as a wallet's key stays outside a web page.
    print(json.dumps(question), flush=True)
    caller_answer: dict[str, Any] = json.loads(sys.stdin.readline())
    return caller_answer


async def main(node_url: str) -> None:
    """Connect, and do all steps."""
    async with AsyncSubstrateInterface(node_url, ss58_format=42, chain_name="Development") as library:
        client = AsyncClient(library, AskedKey("sr25519"), AskedKey("ed25519"))
        await run(client, SubstrateRequestException, BlockNotFound)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
