"""CPU that the market's hook takes in a block, when many devices offer many services and units cannot be matched.

Run: python -m benchmarks market          about 15 seconds

The chain: its economic pallets alone, over a dictionary; the hook is timed by itself, in every block of a run. `dear`:
every device asks more than the units pay, and each service has one unit. `posted`: 640 units, one racer each, are
posted as fast as the market admits them, and drawn. Names say services x offers of each; `max` is the worst block.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.figures import Figures
from genesis.chain import VERSION
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, device_id
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Signed
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.pots import RESERVE
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from simulation.chains.market_chain import (
    CUSTOMER,
    OGPU,
    PALLETS,
    Keys,
    device_row,
    hash_of,
    hexed,
    provider_row,
    validator_row,
)
from simulation.chains.presence import digest_of

RICH = 10**7 * OGPU
CHEAP, DEAR = OGPU // 100, OGPU
SERVICES_PER_DEVICE = 16
BLOCKS = 24
MILLISECONDS = 1e3
DEAR_MARKETS = ((1, 10), (1, 1_000), (16, 1_000), (128, 256))
POSTED_MARKETS = ((1, 10), (1, 100), (1, 1_000))
POSTS, UNITS_PER_POST = 20, 32


def measure() -> Figures:
    """Every market of both kinds."""
    figures: Figures = {}
    for services, offers in DEAR_MARKETS:
        market = _Market(services, offers, ask=DEAR)
        market.block(*((service, 1) for service in range(services)))
        figures |= market.figures(f"dear_{services}x{offers}")
    for services, offers in POSTED_MARKETS:
        market = _Market(services, offers, ask=CHEAP)
        market.block(*((0, UNITS_PER_POST) for _ in range(POSTS)))
        figures |= market.figures(f"posted_{services}x{offers}")
    return figures


class _Market:
    """A chain whose blocks are hooks alone, with now and then posts of one customer's."""

    def __init__(self, services: int, offers: int, ask: int) -> None:
        self.runtime = Runtime(PALLETS, VERSION)
        self.customer = CUSTOMER.stash
        changes = self.runtime.genesis(self._config(services, offers, ask))
        self.state = Memory({key: value for key, value in changes.items() if value is not None})
        self.height = 0
        self.waiting: list[tuple[int, int]] = []
        for _ in range(3):
            self.block()

    def figures(self, name: str) -> Figures:
        """Milliseconds of the hook in the blocks that follow."""
        taken = [self.block() * MILLISECONDS for _ in range(BLOCKS)]
        return {f"{name}_mean_ms": statistics.mean(taken), f"{name}_max_ms": max(taken)}

    def block(self, *posts: tuple[int, int]) -> float:
        """One block with posts, each of so many units of a service; seconds of CPU that the market's hook took."""
        self.height += 1
        bound = self.runtime.at(self.state)
        output, reached = blake2_256(self.height.to_bytes(4, "little")), self.height - 2
        final = (reached, hash_of(reached)) if reached > 0 else None
        digest = digest_of(bound, self.height, self.customer, self.height, output, final)
        bound[System].initialize(self.height, hash_of(self.height - 1), digest)
        seconds = 0.0
        for pallet in bound.pallets:
            started = time.process_time()
            pallet.on_initialize()
            if isinstance(pallet, InferenceMarket):
                seconds = time.process_time() - started
        self._post(bound, posts)
        for pallet in bound.pallets:
            pallet.on_finalize()
        self.state = self.state.updated(bound.overlay.changes())
        return seconds

    def _post(self, bound: Bound, posts: tuple[tuple[int, int], ...]) -> None:
        """Post what was asked for, and what there was no room for before."""
        unit = UnitTerms(CHEAP, 1, bytes(32), bytes(32), max(0, self.height - 3), 1_000)
        self.waiting += posts
        while self.waiting:
            service, count = self.waiting[0]
            try:
                with bound.overlay.transaction():
                    bound.dispatch(InferenceMarket.post(service=service, units=(unit,) * count), Signed(self.customer))
            except DispatchError:
                return  # the market admits no more in this block
            del self.waiting[0]

    def _config(self, services: int, offers: int, ask: int) -> dict[str, dict[str, Any]]:
        groups = -(-services // SERVICES_PER_DEVICE)
        owners = [Keys(f"owner {number}") for number in range(-(-groups * offers // DEVICES_PER_PROVIDER_MAX))]
        devices = list(_devices(owners, groups * offers))
        rich = [*(owner.stash for owner in owners), self.customer, RESERVE]
        return {
            "Balances": {"balances": [[hexed(who), RICH] for who in rich]},
            "TrustStake": {"validators": [validator_row(owner, 100 * OGPU) for owner in owners]},
            "Devices": {
                "providers": [provider_row(owner) for owner in owners],
                "devices": [device_row(owner, uuid, 10 * OGPU) for owner, uuid in devices],
            },
            "InferenceMarket": {
                "services": [_service(self.customer) for _ in range(services)],
                "offers": [
                    {"service": service, "device": hexed(device_id(owner.stash, uuid)), "ask": ask}
                    for service in range(services)
                    for owner, uuid in devices[service // SERVICES_PER_DEVICE * offers :][:offers]
                ],
            },
        }


def _devices(owners: list[Keys], count: int) -> Iterator[tuple[Keys, bytes]]:
    for number in range(count):
        yield owners[number % len(owners)], blake2_256(b"device" + number.to_bytes(4, "little"))


def _service(owner: bytes) -> dict[str, Any]:
    return {
        "owner": hexed(owner), "name": "any", "workload": hexed(bytes(32)), "model": hexed(bytes(32)),
        "price_min": CHEAP, "price_max": 10 * OGPU, "ramp": 10, "lease": 30, "tokens_max": 1_000,
    }  # fmt: skip
