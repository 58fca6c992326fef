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

    async def call_library(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the result of a method."""
        return getattr(self.library, method)(*arguments, **options)

    async def runtime_call(self, api: str, method: str, *arguments: Any) -> Any:
        """Return an answer."""
        return (await super().runtime_call(api, method, *arguments)).value

    async def storage_keys(self, pallet: str, item: str, *prefix: Any) -> list[Any]:
        """Return up to ten keys."""
        return [map_key.value for map_key, _ in self.library.query_map(pallet, item, list(prefix), max_results=10)]

    async def estimated_fee(self, call: Any) -> int:
        """Return the fee from the RPC method."""
        return int(self.library.get_payment_info(call, self.funded_key)["partialFee"])

    async def receipt_property(self, receipt: Any, name: str) -> Any:
        """Return a property."""
        return getattr(receipt, name)

    def decoded_event(self, record: Any) -> dict[str, Any]:
        """Return an event."""
        return super().decoded_event(record.value)


if __name__ == "__main__":
    fresh = Keypair.create_from_seed("0x" + secrets.token_hex(32), crypto_type=KeypairType.ED25519)
    client = BlockingClient(SubstrateInterface(url=sys.argv[1]), Keypair.create_from_uri("//Alice"), fresh)
    asyncio.run(run(client, SubstrateRequestException, BlockNotFound))
