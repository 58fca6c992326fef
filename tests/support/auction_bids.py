"""Tasks and bids for tests of the auction: as small as they can be, or drawn so that scores often meet."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.terms import Bid, TaskTerms

SEED = b"s" * 32
MAX = 1_000
TERMS = TaskTerms(price_max=MAX, time_value=10, loss=0, blocks_max=20, collateral_min=MAX)


def terms(**changes: Any) -> TaskTerms:
    """A task of a greatest price of 1,000, ten grains a block, nothing to lose."""
    return replace(TERMS, **changes)


def bid(number: int, price: int, **changes: Any) -> Bid:
    """The bid of provider `number` with its only device: one block, the collateral that is asked for, no record."""
    name = bytes([number]) * 32
    offered = Bid(name, name, DeviceClass.CPU, price, 1, MAX, TrackRecord())
    return replace(offered, **changes)


PRICES = st.integers(1, 12) | st.integers(1, MAX)
BYTES_OF_A_BID = 8
BIDS = 9


@st.composite
def tasks(draw: st.DrawFn) -> TaskTerms:
    """Draw tasks with few different numbers, so that bids often tie."""
    chance = draw(st.binary(min_size=6, max_size=6))
    return TaskTerms(
        price_max=(12, MAX)[chance[0] % 2],
        time_value=chance[1] % 4,
        loss=(0, 7, 1_500)[chance[2] % 3],
        blocks_max=3 + chance[3] % 4,
        collateral_min=(12, MAX, MAX, 2 * MAX)[chance[4] % 4],
        slots=1 + chance[5] % 3,
    )


@st.composite
def bids(draw: st.DrawFn, number: int) -> Bid:
    """The bid of provider `number`."""
    return _bid(number, number, draw(st.binary(min_size=BYTES_OF_A_BID, max_size=BYTES_OF_A_BID)))


@st.composite
def rounds(draw: st.DrawFn, owners: int = BIDS) -> list[Bid]:
    """Draw some bids, each of another owner, or of `owners` owners in turn.

    All numbers come from one drawn string: to draw each by itself takes twenty times as long.
    """
    size = BYTES_OF_A_BID * draw(st.integers(1, BIDS))
    chance = draw(st.binary(min_size=size, max_size=size))
    starts = range(0, size, BYTES_OF_A_BID)
    return [
        _bid(number, number % owners, chance[start : start + BYTES_OF_A_BID]) for number, start in enumerate(starts)
    ]


def _bid(number: int, owner: int, chance: bytes) -> Bid:
    """Return a bid with the device of that number. Half of all prices and records are small and often equal."""
    kind, is_dear, high, low, blocks, collateral, settled, failed = chance
    return Bid(
        provider=bytes([owner]) * 32,
        device=bytes([number]) * 32,
        device_class=DeviceClass(kind % len(DeviceClass)),
        price=1 + (256 * high + low) % MAX if is_dear % 2 else 1 + low % 12,
        blocks=1 + blocks % 4,
        collateral=MAX << collateral % 3,
        record=TrackRecord(settled if settled % 2 else 0, failed // 8 if settled % 3 else 50 * failed),
    )
