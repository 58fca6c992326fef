"""What a pallet has to come back to: items that wait for a height, and the work that a block may spend on them.

A pallet declares a `ScheduleItem`; its hook takes what is due, within a `WeightMeter`.

Always: an item waits at one height of a schedule at most, and is dropped when its case ends, so what is over costs no
block anything; what a block has no room for stays where it is, in order, so a backlog of any length costs no block more
than any other. Cursors only rise, and nothing is ever put behind one.
"""

from collections.abc import Iterator
from typing import Any, Generic, Self, TypeVar, get_args

from runtime.encoding.types import BlockNumber, Weight
from runtime.frame.storage import Hasher, StorageDoubleMap, StorageItem, StorageMap, StorageValue
from runtime.frame.weights import work

K = TypeVar("K")

HEIGHTS_PER_BLOCK_MAX = 1_024
NOTHING = Weight(0, 0)
TAKE_WEIGHT = work(reads=1, writes=2)


class ScheduleItem(Generic[K]):
    """Items that wait for heights, as one declaration of three storage items.

        heights: ScheduleItem[TaskId] = ScheduleItem("height", doc="Tasks to look at in a block.")

    declares the double map `Heights`, the map `HeightPlace` and the value `HeightCursor` of a pallet.
    """

    def __init__(self, singular: str = "", *, doc: str, hasher: Hasher = Hasher.BLAKE2_128_CONCAT) -> None:
        """`singular` is used in the names of places and cursor instead of the attribute; `hasher` is the items'."""
        self.singular = singular
        self.attribute = ""
        hashers = (Hasher.TWOX_64_CONCAT, hasher)
        self.waiting: StorageDoubleMap[BlockNumber, K, bool] = StorageDoubleMap(default=False, hashers=hashers, doc=doc)
        self.places: StorageMap[K, BlockNumber] = StorageMap(default=0, doc=f"Where each waits; 0: nowhere. {doc}")
        self.cursor: StorageValue[BlockNumber] = StorageValue(default=0, doc=f"Done up to this height. {doc}")

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        for name, item in self.parts.items():
            item.__set_name__(owner, name)

    def __get__(self, pallet: Any, owner: type) -> Self:
        """The declaration on the class; on an instance the schedule over its state, made once."""
        if pallet is None:
            return self
        bound = object.__new__(type(self))  # as in `StorageItem.bound`: every block binds each schedule
        bound.__dict__.update(self.__dict__)
        waiting, places, cursor = (pallet.bound_item(name) for name in self.parts)
        bound.waiting, bound.places, bound.cursor = waiting, places, cursor
        pallet.__dict__[self.attribute] = bound
        return bound

    @property
    def parts(self) -> dict[str, StorageItem]:
        """The three storage items by attribute, in the order of their declaration."""
        stem = self.singular or self.attribute
        return {self.attribute: self.waiting, f"{stem}_place": self.places, f"{stem}_cursor": self.cursor}

    def annotations(self, annotation: Any) -> dict[str, Any]:
        """The annotations of the three items, from the schedule's own."""
        (key,) = get_args(annotation)
        waiting: Any = StorageDoubleMap
        places: Any = StorageMap
        kinds = waiting[BlockNumber, key, bool], places[key, BlockNumber], StorageValue[BlockNumber]
        return dict(zip(self.parts, kinds, strict=True))

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

    def take(self, limit: int, budget: "WeightMeter", each: Weight = NOTHING) -> Iterator[K]:
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


class WeightMeter:
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
