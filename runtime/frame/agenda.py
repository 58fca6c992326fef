"""What a pallet has to come back to: items that wait for a height, and the work that a block may spend on them.

A pallet declares a schedule's storage and makes a `Schedule` of it; the hook takes what is due, within a `Budget`.

Always: an item waits at one height of a schedule at most, and is dropped when its case ends, so what is over costs no
block anything; what a block has no room for stays where it is, in order, so a backlog of any length costs no block more
than any other. Cursors only rise, and nothing is ever put behind one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from runtime.encoding.types import BlockNumber, Weight
from runtime.frame.storage import StorageDoubleMap, StorageMap, StorageValue
from runtime.frame.weights import work

K = TypeVar("K")

HEIGHTS_PER_BLOCK_MAX = 1_024
NOTHING = Weight(0, 0)
TAKE_WEIGHT = work(reads=1, writes=2)


@dataclass(frozen=True, slots=True)
class Schedule(Generic[K]):
    """What waits for which height, and up to which height all of it has been taken."""

    waiting: StorageDoubleMap[BlockNumber, K, bool]
    places: StorageMap[K, BlockNumber]
    """Where each item waits; 0 if it does not."""
    cursor: StorageValue[BlockNumber]

    def put(self, height: int, item: K) -> None:
        """Have the item taken at `height`, which has not been reached, and nowhere else."""
        assert height > self.cursor.get(), "what lies behind the cursor is never taken"
        before = self.places[item]
        if before == height:
            return
        if before:
            del self.waiting[before, item]
        self.waiting[height, item] = True
        self.places[item] = height

    def drop(self, item: K) -> None:
        """Have the item taken nowhere."""
        before = self.places[item]
        # an entry that outlived its case used up a step: units posted and cancelled for 29 oGPU jammed the market
        if before:
            del self.waiting[before, item]
            del self.places[item]

    def take(self, limit: int, budget: "Budget", each: Weight = NOTHING) -> Iterator[K]:
        """The items of the heights after the cursor up to `limit`, while the budget lasts; the rest stays.

        Each is charged what taking it costs, and `each`; whoever works on it may charge the same budget with more.
        """
        done = self.cursor.get()
        assert done <= limit, "a cursor only rises, and never above the height that has been reached"
        price, end = each + TAKE_WEIGHT, min(limit, done + HEIGHTS_PER_BLOCK_MAX)
        while done < end:
            for item, is_there in self.waiting.under(done + 1):
                # Carried over to the next block in a list, a backlog would be copied by every block: units posted and
                # cancelled for some 20 oGPU in fees would stop the chain.
                if budget.is_spent:
                    self.cursor.set(done)
                    return
                if is_there:  # it may have been dropped by the work on an item before it
                    budget.spend(price)
                    del self.waiting[done + 1, item]
                    del self.places[item]
                    yield item
            done += 1
        self.cursor.set(done)


class Budget:
    """The reference time that one kind of work may take in one block, and what of it is gone."""

    def __init__(self, limit: Weight) -> None:
        """Begin with all of it."""
        self._limit = limit.ref_time
        self._spent = 0

    def spend(self, weight: Weight) -> None:
        """Note work that was done."""
        self._spent += weight.ref_time

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be begun."""
        return self._spent >= self._limit

    @property
    def spent(self) -> Weight:
        """What was done: the last piece may have gone beyond the limit."""
        return Weight(self._spent, 0)
