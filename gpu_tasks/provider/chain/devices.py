"""A provider's own devices, proved one by one: the market's whole table would grow with everybody else's.

Always: which there are is a hint of the node, beside those that were seen before; what each is, is proved where the
client proves what it reads. A node can keep a new device from its owner for a while, and say nothing false of one.
"""

from __future__ import annotations

from gpu_tasks.data import market_reads
from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX
from wallet.client import ChainClient

NAMES_MAX = 4 * DEVICES_PER_PROVIDER_MAX
"""How many devices are asked after at most: a node may name any number that are no one's."""


class OwnDevices:
    """The devices of one provider."""

    def __init__(self, stash: bytes) -> None:
        """None is known yet."""
        self._stash = stash
        self._known: dict[bytes, None] = {}

    def heard_of(self, device: bytes) -> None:
        """A device that may be one: a race names it."""
        if len(self._known) < NAMES_MAX:
            self._known[device] = None

    async def read(self, client: ChainClient) -> list[DeviceStatus]:
        """How they stand, by ascending id."""
        at = await client.finalized()
        hinted = await client.unverified().query("GpuTasksApi_devices_of", self._stash)
        names = sorted({*self._known, *(status.id for status in hinted[:DEVICES_PER_PROVIDER_MAX])})
        stored = await client.read_many(Devices.devices, names, at=at)
        found = ((name, device) for name, device in zip(names, stored, strict=True) if device is not None)
        own = {name: device for name, device in found if device.owner == self._stash}
        self._known = dict.fromkeys(own)  # what is not, or is another's, was a lie or has been unregistered
        return list(await market_reads.with_offers(client, own, at))
