"""All providers of the market, proved now and then: the list only says where blobs may lie."""

from __future__ import annotations

from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.records import Provider
from wallet.client import ChainClient

PROVIDERS_KEPT_BLOCKS = 16
"""So long a proved list of all providers is used again."""


class KnownProviders:
    """The newest list."""

    def __init__(self) -> None:
        """None was read."""
        self._read: tuple[int, dict[bytes, Provider]] | None = None

    async def read(self, client: ChainClient) -> dict[bytes, Provider]:
        """All of them, by stash."""
        at = await client.finalized()
        height = await client.height(at)
        if self._read is None or height >= self._read[0] + PROVIDERS_KEPT_BLOCKS:
            self._read = height, await market_reads.providers(client, at)
        return self._read[1]
