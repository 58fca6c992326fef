"""Schedules: items that wait for a height, and the work that a block may spend on them.

A pallet declares a `ScheduleItem`. Its hook takes the due items within a `WeightMeter`.

Invariants:

* An item waits at one height of a schedule at most. It is dropped when its case ends, so that finished cases cost no
  block any time.
* Items that a block has no room for stay in place, in order. A backlog of any length therefore costs each block the
  same.
* Cursors only rise, and no item is ever put behind one.
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
    """Items that wait for heights: one declaration of three storage items.

        heights: ScheduleItem[TaskId] = ScheduleItem("height", doc="Tasks to look at in a block.")

    declares the double map `Heights`, the map `HeightPlace` and the value `HeightCursor` of a pallet.
    """

    def __init__(self, singular: str = "", *, doc: str, hasher: Hasher = Hasher.BLAKE2_128_CONCAT) -> None:
        """Declare a schedule: `singular` replaces the attribute in the names of places and cursor.

        `hasher` hashes the items.
        """
        self.singular = singular
        self.attribute = ""
        key_hashers = (Hasher.TWOX_64_CONCAT, hasher)
        self.waiting: StorageDoubleMap[BlockNumber, K, bool] = StorageDoubleMap(
            default=False, hashers=key_hashers, doc=doc
        )
        self.places: StorageMap[K, BlockNumber] = StorageMap(
            default=0, doc=f"The height at which an item waits, or 0. {doc}"
        )
        self.cursor: StorageValue[BlockNumber] = StorageValue(
            default=0, doc=f"The height up to which all items are taken. {doc}"
        )

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        for name, item in self.parts.items():
            item.__set_name__(owner, name)

    def __get__(self, pallet: Any, owner: type) -> Self:
        """Return the declaration on the class, the schedule over its state on an instance, made once."""
        if pallet is None:
            return self
        bound = object.__new__(type(self))  # fast copy, as in `StorageItem.bound`: every block binds each schedule
        bound.__dict__.update(self.__dict__)
        waiting_item, places_item, cursor_item = (pallet.bound_item(name) for name in self.parts)
        bound.waiting, bound.places, bound.cursor = waiting_item, places_item, cursor_item
        pallet.__dict__[self.attribute] = bound
        return bound

    @property
    def parts(self) -> dict[str, StorageItem]:
        """The three storage items by attribute, in the order of their declaration."""
        stem = self.singular or self.attribute
        return {self.attribute: self.waiting, f"{stem}_place": self.places, f"{stem}_cursor": self.cursor}

    def annotations(self, annotation: Any) -> dict[str, Any]:
        """Return the annotations of the three items, derived from the schedule's own."""
        (key_type,) = get_args(annotation)
        waiting_map: Any = StorageDoubleMap
        place_map: Any = StorageMap
        kinds = waiting_map[BlockNumber, key_type, bool], place_map[key_type, BlockNumber], StorageValue[BlockNumber]
        return dict(zip(self.parts, kinds, strict=True))

    def put(self, height: int, item: K) -> None:
        """Schedule the item at `height`, which must be above the cursor, and at no other height."""
        # At or below the cursor the item would never be taken.
        assert height > self.cursor.get(), "an item is scheduled above the cursor"
        previous = self.places[item]
        if previous == height:
            return
        if previous:
            del self.waiting[previous, item]
        self.waiting[height, item] = True
        self.places[item] = height

    def drop(self, item: K) -> None:
        """Remove the item from the schedule."""
        previous = self.places[item]
        # An entry that outlived its case used up a step: units posted and cancelled for 29 oGPU jammed the market.
        if previous:
            del self.waiting[previous, item]
            del self.places[item]

    def take(self, limit: int, budget: "WeightMeter", each: Weight = NOTHING) -> Iterator[K]:
        """Yield the items of the heights after the cursor up to `limit`, while the budget lasts. The rest stays.

        Each item charges the budget with the cost of taking it and `each`. The caller may charge further work to the
        same budget.
        """
        taken_height = self.cursor.get()
        assert taken_height <= limit, "the cursor never passes the current height"
        # Bounded, because walking over empty heights also takes time.
        item_weight, last_height = each + TAKE_WEIGHT, min(limit, taken_height + HEIGHTS_PER_BLOCK_MAX)
        while taken_height < last_height:
            for item, is_there in self.waiting.under(taken_height + 1):
                # A list of leftovers would be copied by every block: units posted and
                # cancelled for some 20 oGPU in fees would stop the chain.
                if budget.is_spent:
                    self.cursor.set(taken_height)
                    return
                if is_there:  # the work on an earlier item may have dropped it
                    budget.spend(item_weight)
                    del self.waiting[taken_height + 1, item]
                    del self.places[item]
                    yield item
            taken_height += 1
        self.cursor.set(taken_height)


class WeightMeter:
    """The reference time that one kind of work may take in one block, and the part already spent."""

    def __init__(self, limit: Weight) -> None:
        """Start with nothing spent."""
        self._limit = limit.ref_time
        self._spent = 0

    def spend(self, weight: Weight) -> None:
        """Charge the weight of work that was done."""
        self._spent += weight.ref_time

    @property
    def is_spent(self) -> bool:
        """True if no more work may start."""
        return self._spent >= self._limit

    @property
    def spent(self) -> Weight:
        """The charged work. The last piece may exceed the limit."""
        return Weight(self._spent, 0)
