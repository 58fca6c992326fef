"""Books beside a chain: the amounts that one storage entry claims, compared with the sums of other entries.

Invariant: the effect of a storage entry depends on that entry alone, so the same function removes it again. After each
step the books visit the entries that the step wrote. A full count reads the whole state. Schedules are found by their
declarations.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.schedule import ScheduleItem
from runtime.frame.storage import StorageItem, StorageValue
from runtime.state.overlay import StateReader
from runtime.state.written_keys import ITEM_PREFIX_BYTES

EVERYBODY = "everybody"
Keys = tuple[Any, ...]
Schedule = ScheduleItem[Any]


class BooksBroken(Exception):
    """A grain, a hold, a count or a schedule contradicts the state."""


def equal(claimed: int, counted: int) -> bool:
    """Return whether both amounts are equal."""
    return claimed == counted


def at_most(claimed: int, counted: int) -> bool:
    """Return whether the counted amount does not exceed the claimed one."""
    return counted <= claimed


def both_or_none(claimed: int, counted: int) -> bool:
    """Return whether both amounts are zero, or neither is."""
    return bool(claimed) == bool(counted)


class Rule(NamedTuple):
    """A book of two sides, and the relation that they must have at each key."""

    name: str
    agree: Callable[[int, int], bool] = equal


CAP = Rule("the cap, and the owned and burned money")
CASES = Rule("money of a case, and the holds for it")
LIMITS = Rule("limit of a hold, and its amount", at_most)
WAITS = Rule("a place in a schedule, and an item that waits there")
BROUGHT = Rule("open claims and disputes, and their subjects")


class Pair:
    """One book of a chain. A side stores no zeros, so sides with the same entries are equal."""

    def __init__(self, rule: Rule) -> None:
        """Begin with two empty sides."""
        self.rule = rule
        self.claimed: dict[Any, int] = {}
        self.counted: dict[Any, int] = {}
        self._changed: dict[Any, None] = {}

    def claim(self, key: Any, change: int) -> None:
        """Change a claimed amount."""
        self._add(self.claimed, key, change)

    def count(self, key: Any, change: int) -> None:
        """Change a counted amount."""
        self._add(self.counted, key, change)

    def check(self) -> None:
        """Raise BooksBroken if the sides disagree at a key that changed since the last check."""
        for key in self._changed:
            claimed, counted = self.claimed.get(key, 0), self.counted.get(key, 0)
            if not self.rule.agree(claimed, counted):
                raise BooksBroken(f"{self.rule.name}, {told(key)}: claimed {claimed}, counted {counted}")
        self._changed.clear()

    def _add(self, side: dict[Any, int], key: Any, change: int) -> None:
        if not change:
            return
        after = side.get(key, 0) + change
        if after:
            side[key] = after
        else:
            del side[key]
        self._changed[key] = None


class Books:
    """The books of a chain, one for each rule."""

    def __init__(self, bound: Bound, worlds: Iterable["PalletBooks"], cap: int = CAP_GRAINS) -> None:
        """Count a whole state with `cap` grains, including burned ones. Raise BooksBroken if it does not balance."""
        self.runtime, self.worlds, self.cap = bound.runtime, tuple(worlds), cap
        self.owners: dict[bytes, bytes] = {}
        """The owner of each device, past ones included, because an offer does not contain its owner."""
        self.loose = {reason for world in self.worlds for reason in world.loose}
        self.known = {reason for world in self.worlds for reason in world.pallet.hold_reasons}
        self.indices = {world.pallet.index for world in self.worlds}
        self._pairs: dict[Rule, Pair] = {}
        self._at: dict[tuple[bytes, int], int] = {}
        self._cursors: dict[bytes, int] = {}
        self._seen: dict[bytes, Any] = {}
        self[CAP].claim(EVERYBODY, cap)
        self._readers = _readers_of(self.runtime, self.worlds)
        for prefix in self._readers:
            self._note(bound, bound.overlay.keys(prefix))
        self.check()

    def __getitem__(self, rule: Rule) -> Pair:
        """Return the book of a rule."""
        pair = self._pairs.get(rule)
        if pair is None:
            pair = self._pairs[rule] = Pair(rule)
        return pair

    def case(self, who: bytes, hold: Hold, amount: int) -> None:
        """Change the amount that a case holds of an account."""
        self[CASES].claim((who, hold), amount)

    def step(self, bound: Bound, written: Iterable[bytes]) -> None:
        """Record the writes of a step. Raise BooksBroken if they do not balance."""
        self._note(bound, written)
        self.check()

    def check(self) -> None:
        """Raise BooksBroken if the sides of a book disagree at a changed key."""
        for pair in self._pairs.values():
            pair.check()

    def compare(self, bound: Bound) -> None:
        """Count the whole state again. Raise BooksBroken if the result differs from these books."""
        anew = Books(bound, self.worlds, self.cap)
        for key in self._seen.keys() | anew._seen.keys():
            if self._seen.get(key) != anew._seen.get(key):
                item = self._readers[key[:ITEM_PREFIX_BYTES]][0][0]
                raise BooksBroken(f"{item.name}, {told(key[-32:])}: changed unseen")
        for rule in self._pairs.keys() | anew._pairs.keys():
            mine, other = self[rule], anew[rule]
            for side, expected in ((mine.claimed, other.claimed), (mine.counted, other.counted)):
                if side != expected:
                    wrong = sorted(told(key) for key, _ in side.items() ^ expected.items())
                    raise BooksBroken(f"{rule.name}: kept wrongly: {', '.join(wrong[:5])}")

    def _note(self, bound: Bound, written: Iterable[bytes]) -> None:
        """Remove the former effect of each written entry, and add its present one."""
        changed: list[tuple[bytes, Any, Any]] = []
        for key in dict.fromkeys(written):
            readers = self._readers.get(key[:ITEM_PREFIX_BYTES])
            if readers is not None:
                value, before = bound.overlay.load(key, readers[0][0].decode), self._seen.get(key)
                if value is not before and value != before:
                    changed.append((key, before, value))
        # removals first: a schedule's cursor may pass only removed items
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
            read(self, keys, value, sign)

    # ----------------------------------------------------------------------------------------------------- schedules

    def wait(self, schedule: Schedule, keys: Keys, is_there: bool, sign: int) -> None:
        """Add or remove an item that waits at a height. Raise BooksBroken at or behind the cursor."""
        if not is_there:
            return
        height, item = keys
        name = schedule.cursor.prefix
        if sign > 0 and height <= self._cursors.get(name, 0):
            raise BooksBroken(f"{schedule.waiting.name}, {told(item)}: waits at {height}, which has been done")
        self._at[name, height] = self._at.get((name, height), 0) + sign
        self[WAITS].count((name, item, height), sign)

    def place(self, schedule: Schedule, keys: Keys, height: int, sign: int) -> None:
        """Add or remove an item's place in a schedule."""
        if height:
            self[WAITS].claim((schedule.cursor.prefix, keys[0], height), sign)

    def reach(self, schedule: Schedule, _: Keys, height: int, sign: int) -> None:
        """Move a cursor to a height. Raise BooksBroken if it skips an item or goes back."""
        if sign < 0:
            return
        name = schedule.cursor.prefix
        before = self._cursors.get(name, 0)
        left = [passed for passed in range(before + 1, height + 1) if self._at.get((name, passed), 0)]
        if left or height < before:
            raise BooksBroken(
                f"{schedule.cursor.name}: from {before} to {height}, later than the items that wait at {left}"
            )
        self._cursors[name] = height


Entry = Callable[[Books, Keys, Any, int], None]
"""Takes the books, the entry's keys and value, and +1 to add its effect or -1 to remove it."""


class PalletBooks(NamedTuple):
    """The effect of a pallet's storage entries on the books."""

    pallet: type[Pallet]
    entries: tuple[tuple[StorageItem, Entry], ...] = ()
    check: Callable[[Bound], None] = lambda _: None
    """Checks relations between entries, and raises AssertionError."""
    loose: tuple[HoldReason, ...] = ()
    """Hold reasons that are paid out step by step. Their entries state only a maximum."""


def check_books(bound: Bound, issued: int, worlds: Iterable[PalletBooks]) -> None:
    """Count a whole state, and check the relations between entries. Raise BooksBroken or AssertionError."""
    there = _there(bound, worlds)
    Books(bound, there, issued)
    _check_relations(bound, there)


class ChainBooks:
    """The books of one chain, kept from block to block. A block costs its writes, not the size of the state."""

    def __init__(self, worlds: Iterable[PalletBooks]) -> None:
        """Count nothing before the first checked block."""
        self._worlds = tuple(worlds)
        self._books: Books | None = None
        self._state: StateReader | None = None

    def follow(self, bound: Bound, after: StateReader, issued: int, *, is_checked: bool) -> None:
        """Record a block that led to the state `after`.

        Count the whole state if the block did not begin at the recorded one.

        Raise BooksBroken if the books do not balance, or AssertionError if a relation between entries fails. If
        `is_checked` is False, the block is recorded only if it follows the recorded one.
        """
        # An exception below leaves the books outdated, and then the next block needs a full count.
        kept, state, self._state = self._books, self._state, None
        is_next = kept is not None and (state, kept.runtime, kept.cap) == (bound.overlay.reader, bound.runtime, issued)
        if kept is not None and is_next:
            kept.step(bound, bound.overlay.changes())
            self._state = after
        elif is_checked:
            self._books = Books(bound, _there(bound, self._worlds), issued)
            self._state = after
        if is_checked:
            _check_relations(bound, _there(bound, self._worlds))


def _there(bound: Bound, worlds: Iterable[PalletBooks]) -> list[PalletBooks]:
    return [world for world in worlds if world.pallet in bound.runtime.pallets]


def _check_relations(bound: Bound, worlds: Iterable[PalletBooks]) -> None:
    for world in worlds:
        world.check(bound)


def blind_spots(runtime: Runtime, worlds: Iterable[PalletBooks]) -> list[str]:
    """Return a sentence for each hold reason of a chain that no module of the books covers."""
    known = {world.pallet for world in worlds}
    unknown = [reason for pallet in runtime.pallets if pallet not in known for reason in pallet.hold_reasons]
    return [f"the books know no case that holds {reason!r}" for reason in unknown]


Readers = dict[bytes, list[tuple[StorageItem, Entry]]]


@lru_cache(maxsize=64)
def _readers_of(runtime: Runtime, worlds: tuple[PalletBooks, ...]) -> Readers:
    """Return the readers of each item's entries, by pallet in the order of the chain: devices before their offers."""
    readers: Readers = {}

    def listen(declared: StorageItem, read: Entry) -> None:
        readers.setdefault(declared.prefix, []).append((runtime.item(declared), read))

    by_pallet = {world.pallet: world for world in worlds}
    for pallet in runtime.pallets:
        for declared, entry in by_pallet[pallet].entries if pallet in by_pallet else ():
            listen(declared, entry)
        for schedule in pallet.schedules.values():
            listen(schedule.waiting, partial(_of_schedule, Books.wait, schedule))
            listen(schedule.places, partial(_of_schedule, Books.place, schedule))
            listen(schedule.cursor, partial(_of_schedule, Books.reach, schedule))
    return readers


def _of_schedule(read: Any, schedule: Schedule, books: Books, keys: Keys, value: Any, sign: int) -> None:
    read(books, schedule, keys, value, sign)


def keys_of(item: StorageItem, storage_key: bytes) -> Keys:
    """Return an entry's keys, decoded from its storage key."""
    if isinstance(item, StorageValue):
        return ()
    place, keys = ITEM_PREFIX_BYTES, []
    for hasher, codec in zip(item.hashers, item.key_codecs, strict=True):
        key, place = codec.decode_from(storage_key, place + hasher.prefix_bytes)
        keys.append(key)
    return tuple(keys)


def claims(rule: Rule) -> Entry:
    """Return an entry that claims its number, by its first key or for the whole chain."""
    return lambda books, keys, number, sign: books[rule].claim(keys[0] if keys else EVERYBODY, sign * number)


def counts(rule: Rule, key_of: Callable[[Keys], Any]) -> Entry:
    """Return an entry that counts once, by a function of its keys."""
    return lambda books, keys, _, sign: books[rule].count(key_of(keys), sign)


def places(*rules: Rule, name: Callable[[Any], Any] = lambda item: item) -> Entry:
    """Return an entry for places in a schedule: each item with a place counts once for each rule."""

    def entry(books: Books, keys: Keys, height: int, sign: int) -> None:
        for rule in rules if height else ():
            books[rule].count(name(keys[0]), sign)

    return entry


def told(key: Any) -> str:
    """Return a key as text, with bytes shortened to their first digits."""
    if isinstance(key, bytes):
        return f"0x{key[:6].hex()}"
    if isinstance(key, tuple):
        return " ".join(told(part) for part in key)
    reason = getattr(key, "reason", None)
    return f"{reason} {told(key.case)}" if reason is not None else str(key)
