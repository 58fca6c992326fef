"""`substrate-interface`, unmodified: python -m devnet.proofs.public_clients.with_substrate_interface ws://HOST:PORT."""

from __future__ import annotations

import asyncio
import secrets
import sys
from typing import Any

from substrateinterface import Keypair, KeypairType, SubstrateInterface
from substrateinterface.exceptions import BlockNotFound, SubstrateRequestException

from devnet.proofs.public_clients.steps import AsyncClient, run


class BlockingClient(AsyncClient):
    """The blocking library, which wraps values."""

    knows_runtime_apis = False

    async def do(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Return the result of a method."""
        return getattr(self.library, method)(*arguments, **named)

    async def runtime_call(self, api: str, method: str, *arguments: Any) -> Any:
        """Return an answer."""
        return (await super().runtime_call(api, method, *arguments)).value

    async def keys(self, pallet: str, item: str, *prefix: Any) -> list[Any]:
        """Return up to ten keys."""
        return [key.value for key, _ in self.library.query_map(pallet, item, list(prefix), max_results=10)]

    async def fee(self, call: Any) -> int:
        """Return the fee from the RPC method."""
        return int(self.library.get_payment_info(call, self.alice)["partialFee"])

    async def told(self, receipt: Any, name: str) -> Any:
        """Return a property."""
        return getattr(receipt, name)

    def event(self, record: Any) -> dict[str, Any]:
        """Return an event."""
        return super().event(record.value)


if __name__ == "__main__":
    fresh = Keypair.create_from_seed("0x" + secrets.token_hex(32), crypto_type=KeypairType.ED25519)
    client = BlockingClient(SubstrateInterface(url=sys.argv[1]), Keypair.create_from_uri("//Alice"), fresh)
    asyncio.run(run(client, SubstrateRequestException, BlockNotFound))
