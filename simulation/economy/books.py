"""The books of one chain, kept beside it: after each step for what it wrote, and counted anew from the whole state.

Always: what the books believe of an entry is what they saw last; a step that changes an entry and does not balance is
found at once, and an entry that changed unseen when everything is counted anew.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.due import case_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.storage import StorageItem, StorageValue
from runtime.state.written_keys import ITEM_PREFIX_BYTES
from simulation.economy.entries import ENTRIES, Grains
from simulation.economy.pairs import BooksBroken, Pair, told
from simulation.economy.timetable import Schedule, Timetable

Keys = tuple[Any, ...]


class Books:
    """What a chain's state says, side against side."""

    def __init__(self, bound: Bound, cap: int = CAP_GRAINS) -> None:
        """Count a whole state of a chain with so many grains, burned ones included; BooksBroken if it is not even."""
        self.runtime, self.cap = bound.runtime, cap
        self.grains, self.timetable = Grains(cap), Timetable()
        self._seen: dict[bytes, Any] = {}
        self._readers: dict[bytes, list[tuple[StorageItem, Any]]] = {}
        for declared, entry in ENTRIES:
            self._listen(declared, partial(entry, self.grains))
        self._listen_to_schedules()
        for prefix in list(self._readers):
            self._note(bound, bound.overlay.keys(prefix))
        self.check()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All books."""
        return *self.grains.pairs, *self.timetable.pairs

    def step(self, bound: Bound, written: Iterable[bytes]) -> None:
        """Note what a step wrote; BooksBroken if that does not balance."""
        self._note(bound, written)
        self.check()

    def check(self) -> None:
        """BooksBroken if the sides of a book disagree where something changed."""
        for pair in self.pairs:
            pair.check()

    def compare(self, bound: Bound) -> None:
        """Count the whole state anew; BooksBroken if that gives other books."""
        anew = Books(bound, self.cap)
        for key in self._seen.keys() | anew._seen.keys():
            if self._seen.get(key) != anew._seen.get(key):
                raise BooksBroken(
                    f"{self._readers[key[:ITEM_PREFIX_BYTES]][0][0].name}, {told(key[-32:])}: changed unseen"
                )
        for mine, other in zip(self.pairs, anew.pairs, strict=True):
            for side, expected in ((mine.claimed, other.claimed), (mine.counted, other.counted)):
                if side != expected:
                    wrong = sorted(told(key) for key, _ in side.items() ^ expected.items())
                    raise BooksBroken(f"{mine.name}: kept wrongly: {', '.join(wrong[:5])}")

    def _note(self, bound: Bound, written: Iterable[bytes]) -> None:
        """What each entry said before is taken back, and what it says now is noted."""
        changed: list[tuple[bytes, Any, Any]] = []
        for key in dict.fromkeys(written):
            readers = self._readers.get(key[:ITEM_PREFIX_BYTES])
            if readers is not None:
                value, before = bound.overlay.load(key, readers[0][0].decode), self._seen.get(key)
                if value is not before and value != before:
                    changed.append((key, before, value))
        # all that is over first: a schedule's cursor may pass only what has left
        for key, before, _ in changed:
            if before is not None:
                self._read(key, before, -1)
        for key, _, value in changed:
            if value is None:
                del self._seen[key]
            else:
                self._seen[key] = value
                self._read(key, value, +1)

    def _read(self, key: bytes, value: Any, sign: int) -> None:
        readers = self._readers[key[:ITEM_PREFIX_BYTES]]
        keys = keys_of(readers[0][0], key)
        for _, read in readers:
            read(keys, value, sign)

    def _listen(self, declared: StorageItem, read: Any) -> None:
        if is_declared(self.runtime, declared):
            self._readers.setdefault(declared.prefix, []).append((self.runtime.item(declared), read))

    def _listen_to_schedules(self) -> None:
        table = self.timetable
        self._listen(InferenceMarket.units, lambda keys, unit, sign: table.unit(keys[0], unit, sign))
        self._listen(TrainingMarket.tasks, lambda keys, task, sign: table.task(keys[0], task, sign))
        self._listen(LeafChecks.checks, lambda keys, check, sign: table.check(keys[0], check, sign))
        self._listen(LeafDisputes.disputes, lambda keys, dispute, sign: table.dispute(keys[0], dispute, sign))
        self._listen(Courts.cases, lambda keys, _, sign: table.case(keys[0], sign))
        self._listen(Courts.due, lambda keys, _, sign: table.is_due(case_of(keys[0]), sign))
        for schedule in (each for pallet in self.runtime.pallets for each in pallet.schedules.values()):
            self._listen(schedule.cursor, partial(_reach, table, schedule))
            self._listen(schedule.waiting, partial(_wait, table, schedule))
            self._listen(schedule.places, partial(_place, table, schedule))


def is_declared(runtime: Runtime, item: StorageItem) -> bool:
    """Whether a chain has this item."""
    return any(item.prefix == other.prefix for items in runtime.items.values() for other in items.values())


def keys_of(item: StorageItem, storage_key: bytes) -> Keys:
    """What an entry lies under, by its storage key."""
    if isinstance(item, StorageValue):
        return ()
    place, keys = ITEM_PREFIX_BYTES, []
    for hasher, codec in zip(item.hashers, item.key_codecs, strict=True):
        key, place = codec.decode_from(storage_key, place + hasher.prefix_bytes)
        keys.append(key)
    return tuple(keys)


def _wait(table: Timetable, schedule: Schedule, keys: Keys, is_there: bool, sign: int) -> None:
    if is_there:
        table.wait(schedule, keys, sign)


def _place(table: Timetable, schedule: Schedule, keys: Keys, height: int, sign: int) -> None:
    table.place(schedule, keys[0], height, sign)


def _reach(table: Timetable, schedule: Schedule, _: Keys, height: int, sign: int) -> None:
    table.reach(schedule, height, sign)
