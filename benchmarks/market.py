"""CPU time of the market's hook in a block, with many devices, many services and units that cannot be matched.

    Run: python -m benchmarks market          about 15 seconds

The chain has only its economic pallets, over a dictionary. The benchmark times the hook alone in every block of a run.
In `dear`, every device asks more than the units pay, and each service has one unit. In `posted`, 640 units with one
racer each are posted as fast as the market admits them, and drawn. Names have the form services x offers of each
service. `max` is the worst block.
"""

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.crowds import timed
from benchmarks.figures import Figures
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, device_id_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms
from runtime.cryptography.hashing import blake2_256
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.pots import RESERVE
from simulation.chains.market_chain import (
    CUSTOMER,
    OGPU,
    Keys,
    MarketChain,
    device_row,
    hexed,
    provider_row,
    signed,
    validator_row,
)

RICH = 10**7 * OGPU
CHEAP, DEAR = OGPU // 100, OGPU
SERVICES_PER_DEVICE = 16
BLOCKS = 24
MILLISECONDS = 1e3
DEAR_MARKETS = ((1, 10), (1, 1_000), (16, 1_000), (128, 256))
POSTED_MARKETS = ((1, 10), (1, 100), (1, 1_000))
POSTS, UNITS_PER_POST = 20, 32


def measure() -> Figures:
    """Return the figures of every market of both kinds."""
    figures: Figures = {}
    for services, offers in DEAR_MARKETS:
        market = OfferedMarket(services, offers, ask=DEAR)
        figures |= market.figures(f"dear_{services}x{offers}", [(service, 1) for service in range(services)])
    for services, offers in POSTED_MARKETS:
        market = OfferedMarket(services, offers, ask=CHEAP)
        figures |= market.figures(f"posted_{services}x{offers}", [(0, UNITS_PER_POST)] * POSTS)
    return figures


class OfferedMarket(MarketChain):
    """A chain whose blocks hold only hooks, and sometimes posts of one customer."""

    def __init__(self, services: int, offers: int, ask: int) -> None:
        """Make block 0, and the blocks before the market can draw units."""
        self.services, self.offers, self.ask = services, offers, ask
        self.devices = -(-services // SERVICES_PER_DEVICE) * offers
        owners = [Keys(f"owner {number}") for number in range(-(-self.devices // DEVICES_PER_PROVIDER_MAX))]
        self.waiting: list[tuple[int, int]] = []
        super().__init__(owners, check=lambda _bound, _issued: None)
        self.blocks(3)

    def figures(self, name: str, posts: list[tuple[int, int]]) -> Figures:
        """Return the hook's milliseconds in the blocks after posts. Each post is (service, units)."""
        self.waiting = posts
        self.block(self._post)
        with timed(InferenceMarket) as taken:
            for _ in range(BLOCKS):
                self.block(self._post)
        spent = [seconds * MILLISECONDS for seconds in taken]
        return {f"{name}_mean_ms": statistics.mean(spent), f"{name}_max_ms": max(spent)}

    def _post(self, bound: Bound) -> None:
        """Post as many of the waiting units as the market admits in this block."""
        unit = UnitTerms(CHEAP, 1, bytes(32), bytes(32), max(0, self.height - 3), 1_000)
        while self.waiting:
            service, count = self.waiting[0]
            try:
                signed(CUSTOMER.stash, InferenceMarket.post(service=service, units=(unit,) * count))(bound)
            except DispatchError:
                return
            del self.waiting[0]

    def config(self) -> dict[str, dict[str, Any]]:
        """Return block 0's configuration: owners whose devices offer all their services."""
        devices = list(_devices(self.validators, self.devices))
        rich = [*(owner.stash for owner in self.validators), CUSTOMER.stash, RESERVE]
        return {
            "Balances": {"balances": [[hexed(who), RICH] for who in rich]},
            "TrustStake": {"validators": [validator_row(owner, 100 * OGPU) for owner in self.validators]},
            "Devices": {
                "providers": [provider_row(owner) for owner in self.validators],
                "devices": [device_row(owner, uuid, 10 * OGPU) for owner, uuid in devices],
            },
            "InferenceMarket": {
                "services": [_service(CUSTOMER.stash) for _ in range(self.services)],
                "offers": [
                    {"service": service, "device": hexed(device_id_of(owner.stash, uuid)), "ask": self.ask}
                    for service in range(self.services)
                    for owner, uuid in devices[service // SERVICES_PER_DEVICE * self.offers :][: self.offers]
                ],
            },
        }


def _devices(owners: list[Keys], count: int) -> Iterator[tuple[Keys, bytes]]:
    for number in range(count):
        yield owners[number % len(owners)], blake2_256(b"device" + number.to_bytes(4, "little"))


def _service(owner: bytes) -> dict[str, Any]:
    return {
        "owner": hexed(owner), "name": "any", "workload": hexed(bytes(32)), "model": hexed(bytes(32)),
        "price_min": CHEAP, "price_max": 10 * OGPU, "ramp": 10, "commit_window": 30, "tokens_max": 1_000,
    }  # fmt: skip
