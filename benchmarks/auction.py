"""CPU time of awarding a task: selection among 64 and 128 revealed bids, for one slot and for gangs.

    Run: python -m benchmarks auction          about 3 seconds

Bids differ in price, promised time, collateral and record, so every score has all three parts. Four providers have two
devices each. The chain awards a task once, in a hook. A client that checks an award computes the same.
"""

import time

from benchmarks.figures import Figures
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.selection import BIDS_MAX, select
from gpu_tasks.market.training.terms import Bid, TaskTerms
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import GRAINS_PER_OGPU

OGPU = GRAINS_PER_OGPU
MAX = 25 * OGPU
ROUNDS, REPEATS = 15, 40
MICROSECONDS = 1e6
SEED = blake2_256(b"beacon")


def measure() -> Figures:
    """Return the microseconds of a selection, the lowest of several rounds."""
    return {
        "one_slot_64_us": _microseconds(64, 1),
        "one_slot_128_us": _microseconds(BIDS_MAX, 1),
        "gang_of_8_128_us": _microseconds(BIDS_MAX, 8),
    }


def _microseconds(count: int, slots: int) -> float:
    terms = TaskTerms(MAX, OGPU // 100, 60 * OGPU, 1_000, MAX, slots)
    bids = [_bid(number) for number in range(count)]
    assert len(select(terms, bids, SEED).winners) == slots, "the task is awarded"
    taken = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(REPEATS):
            select(terms, bids, SEED)
        taken.append(time.process_time() - started)
    return min(taken) / REPEATS * MICROSECONDS


def _bid(number: int) -> Bid:
    """Return a bid with pseudorandom terms, the same in each run."""
    drawn = blake2_256(b"bid" + number.to_bytes(2, "little"))
    price, blocks, collateral, settled = (int.from_bytes(drawn[at : at + 4], "little") for at in (0, 4, 8, 12))
    return Bid(
        provider=blake2_256(b"provider" + bytes([number % 124])),
        device=drawn,
        device_class=DeviceClass(number % len(DeviceClass)),
        price=1 + price % MAX,
        blocks=1 + blocks % 1_000,
        collateral=MAX + collateral % (3 * MAX),
        record=TrackRecord(settled * 10, settled % OGPU),
    )
