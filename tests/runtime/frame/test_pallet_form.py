"""The form of pallets: the meaning of a declaration, and the mistakes that are refused at once."""

from typing import Any

import pytest

from runtime.encoding.codec import U8, U32, DecodeError
from runtime.encoding.types import AccountId, Hash
from runtime.frame.call import Call
from runtime.frame.errors import BadOrigin, DispatchError, ErrorValue
from runtime.frame.pallet import (
    Constant,
    Hasher,
    HoldReason,
    Pallet,
    Root,
    Signed,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    Unsigned,
    call,
    event,
)
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.storage import StateCorrupted, storage_prefix
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from small_chain import VERSION

WHO, OTHER = b"w" * 32, b"o" * 32


@event
class First:
    """One."""

    number: U32


@event(5)
class Fifth:
    """Two."""


class Refused(DispatchError):
    """No."""


class Denied(DispatchError):
    """Never."""


class Shelf(Pallet, index=200):
    """Has one of everything."""

    system: System

    total: StorageValue[U32] = StorageValue(default=3)
    maybe: StorageValue[U32 | None] = StorageValue()
    owners: StorageMap[Hash, AccountId | None] = StorageMap()
    counts: StorageMap[U32, U8] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT, name="Tally")
    pairs: StorageDoubleMap[AccountId, U32, U8] = StorageDoubleMap(default=9)
    limit: Constant[U32] = Constant(7)

    events = (First, Fifth)
    errors = (Refused, Denied)

    @call(index=3)
    def put(self, origin: Signed, number: U32, owner: AccountId | None) -> None:
        """Put."""
        self.total.set(number)
        self.emit(First(number))
        if owner is None:
            raise Denied

    @call(index=1)
    def either(self, origin: Signed | Root, number: U8) -> None:
        """Either."""
        self.counts[1] = number

    @call(index=2)
    def inherent(self, origin: Unsigned) -> None:
        """Only the author may call."""


class LargeStorage(Pallet):
    """The storage of Large."""

    system: System

    deep: StorageValue[U32] = StorageValue(default=1)
    shared: StorageMap[U32, U8] = StorageMap(default=0)
    depth: Constant[U32] = Constant(2)


def sink(storage: LargeStorage) -> None:
    """Work in a module of its own, which needs the storage base only."""
    storage.deep.set(storage.deep.get() + storage.depth + storage.system.number.get())
    storage.emit(Sunk())


@event
class Sunk:
    """Deeper."""


class Large(LargeStorage, index=210):
    """Calls and hooks, on its storage."""

    top: StorageValue[U8] = StorageValue(default=4)
    height: Constant[U8] = Constant(3)
    events = (Sunk,)

    @call(index=0)
    def dig(self, origin: Signed) -> None:
        """Go down."""
        sink(self)


RUNTIME = Runtime((System, Shelf), VERSION)


@pytest.fixture
def bound() -> Bound:
    return RUNTIME.at(Memory())


def test_a_call_read_off_the_class_is_data() -> None:
    built = Shelf.put(5, owner=WHO)
    assert built == Shelf.put(number=5, owner=WHO)
    assert (built.name, built.named_arguments) == ("Shelf.put", {"number": 5, "owner": WHO})
    assert RUNTIME.call_codec.encode(built) == bytes((200, 3)) + b"\5\0\0\0\1" + WHO
    assert RUNTIME.call_codec.decode(bytes((200, 3)) + b"\5\0\0\0\0") == Shelf.put(5, None)
    assert repr(Shelf.either(number=2)) == "Shelf.either(number=2)"
    for wrong in (b"\xc8\x00", b"\xc9\x00", b"\xc8"):
        with pytest.raises(DecodeError):
            RUNTIME.call_codec.decode(wrong)


def test_a_call_read_off_an_instance_is_execution(bound: Bound) -> None:
    bound[Shelf].put(Signed(WHO), 5, WHO)
    assert bound[Shelf].total.get() == 5
    assert [happened for _, happened in bound.overlay.events] == [First(5)]
    with pytest.raises(Denied), bound[Shelf].transactional():
        bound[Shelf].put(Signed(WHO), 6, None)
    assert bound[Shelf].total.get() == 5


@pytest.mark.parametrize(
    ("made", "origins"),
    [(Shelf.put(1, WHO), (Signed(WHO),)), (Shelf.either(1), (Signed(WHO), Root())), (Shelf.inherent(), (Unsigned(),))],
)
def test_the_annotation_of_the_origin_says_who_may_call(bound: Bound, made: Call, origins: tuple[Any, ...]) -> None:
    for origin in (Signed(WHO), Root(), Unsigned()):
        if origin in origins:
            bound.dispatch(made, origin)
        else:
            with pytest.raises(BadOrigin):
                bound.dispatch(made, origin)
    assert made.method.is_inherent == (origins == (Unsigned(),))


def test_errors_and_events_have_their_numbers() -> None:
    assert Refused.value == ErrorValue(3, bytes((200, 0, 0, 0, 0)))
    assert Denied.value == ErrorValue(3, bytes((200, 1, 0, 0, 0)))
    assert RUNTIME.event_codec.encode(First(1)) == b"\xc8\x00\1\0\0\0"
    assert RUNTIME.event_codec.encode(Fifth()) == b"\xc8\x05"
    assert RUNTIME.event_codec.decode(b"\xc8\x05") == Fifth()


def test_items_read_write_remove_and_list(bound: Bound) -> None:
    shelf = bound[Shelf]
    assert (shelf.total.get(), shelf.maybe.get(), shelf.total.exists()) == (3, None, False)
    shelf.maybe.set(0)
    shelf.total.set(3)
    assert (shelf.maybe.get(), shelf.maybe.exists(), shelf.total.exists()) == (0, True, True)
    shelf.maybe.remove()
    assert not shelf.maybe.exists()
    shelf.owners[WHO] = OTHER
    assert (shelf.owners[WHO], shelf.owners[OTHER], WHO in shelf.owners, OTHER in shelf.owners) == (
        OTHER,
        None,
        True,
        False,
    )
    for number in range(5):
        shelf.counts[number] = number
    del shelf.counts[2]
    assert sorted(shelf.counts.items()) == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert shelf.counts[2] == 0
    for number in (1, 2):
        shelf.pairs[WHO, number] = number
    shelf.pairs[OTHER, 1] = 7
    assert sorted(shelf.pairs.under(WHO)) == [(1, 1), (2, 2)]
    assert sorted(shelf.pairs.items()) == [((OTHER, 1), 7), ((WHO, 1), 1), ((WHO, 2), 2)]
    del shelf.pairs[WHO, 1]
    assert (shelf.pairs[WHO, 1], (WHO, 1) in shelf.pairs, (WHO, 2) in shelf.pairs) == (9, False, True)


def test_a_value_out_of_range_fails_where_it_is_written(bound: Bound) -> None:
    for number in (-1, 1 << 32):
        with pytest.raises(OverflowError):
            bound[Shelf].total.set(number)
    assert bound[Shelf].total.get() == 3


def test_items_are_found_again_from_outside(bound: Bound) -> None:
    bound[Shelf].counts[4] = 2
    item = RUNTIME.item(Shelf.counts)
    assert item.name == "Tally"
    assert item.decode(bound.overlay.changes()[item.key(4)] or b"") == 2
    with pytest.raises(StateCorrupted):
        item.decode(b"\0\0")


def test_constants_are_the_chains() -> None:
    assert RUNTIME.at(Memory())[Shelf].limit == 7
    assert Runtime((System, Shelf), VERSION, {"Shelf.limit": 1}).at(Memory())[Shelf].limit == 1
    with pytest.raises(ValueError, match="no such constant"):
        Runtime((System, Shelf), VERSION, {"Shelf.limits": 1})


def test_declarations_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match=r"list \w+ before"):
        Runtime((Shelf, System), VERSION)
    with pytest.raises(ValueError, match="distinct"):
        Runtime((System, System), VERSION)

    class Neighbour(Pallet, index=200):
        pass

    with pytest.raises(ValueError, match="Shelf and Neighbour"):
        Runtime((System, Shelf, Neighbour), VERSION)
    with pytest.raises(TypeError, match="Refused already belongs"):

        class Thief(Pallet, index=201):
            errors = (Refused,)

    class Reserved(Pallet, index=0x6F):
        pass

    with pytest.raises(ValueError, match="index 0x6f"):
        Runtime((System, Reserved), VERSION)
    for index in (-1, 256):
        with pytest.raises(TypeError, match=f"255, not {index}"):
            type("Outside", (Pallet,), {}, index=index)

    class Neither(Pallet, index=202):
        item: StorageValue[U32] = StorageValue()

    class Both(Pallet, index=203):
        item: StorageValue[U32 | None] = StorageValue(default=1)

    for wrong in (Neither, Both):
        with pytest.raises(TypeError, match="needs either"):
            Runtime((System, wrong), VERSION)

    class Copycat(Pallet, index=204):
        events = (First,)

    with pytest.raises(ValueError, match="share a tag"):
        Runtime((System, Shelf, Copycat), VERSION)


def test_what_a_declaration_forgets_is_named() -> None:
    with pytest.raises(TypeError, match="put and take"):

        class Twins(Pallet, index=205):
            @call(index=0)
            def put(self, origin: Signed) -> None:
                """Put."""

            @call(index=0)
            def take(self, origin: Signed) -> None:
                """Take."""

    class Terse(Pallet, index=206):
        item = StorageValue(default=1)

    with pytest.raises(TypeError, match="Terse: item must"):
        Runtime((System, Terse), VERSION)

    class Bare(Pallet, index=207):
        @call(index=0)
        def put(self, origin: Signed, thing, number: U8) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - forgotten, on purpose
            """Put."""

    with pytest.raises(TypeError, match=r"Bare\.put: thing must"):
        Runtime((System, Bare), VERSION)


def test_an_event_and_a_reason_that_no_pallet_lists_are_named(bound: Bound) -> None:
    @event
    class Unlisted:
        """An event of no pallet."""

    bound[Shelf].emit(Unlisted())
    with pytest.raises(TypeError, match=r"Unlisted .* events"):
        RUNTIME.event_codec.encode(Unlisted())
    with pytest.raises(TypeError, match=r"Forgotten .* hold_reasons"):
        RUNTIME.codecs.of(HoldReason).encode(HoldReason("Forgotten", "Of nobody."))


def test_a_pallet_has_no_attributes_beside_its_storage(bound: Bound) -> None:
    for name, value in (("seen", 1), ("total", 4), ("system", None)):
        with pytest.raises(TypeError, match=rf"Shelf\.{name}: "):
            setattr(bound[Shelf], name, value)


def test_what_a_storage_base_declares_is_the_pallets() -> None:
    runtime = Runtime((System, Large), VERSION, {"Large.depth": 5})
    assert list(runtime.items[Large]) == ["deep", "shared", "top"]
    assert list(Large.constants) == ["depth", "height"]
    for item, name in ((Large.deep, "Deep"), (LargeStorage.deep, "Deep"), (Large.top, "Top")):
        assert runtime.item(item).key() == storage_prefix("Large", name)
    bound = runtime.at(Memory())
    bound.dispatch(Large.dig(), Signed(WHO))
    assert bound[Large].deep.get() == 6
    assert list(bound.overlay.changes()) == [storage_prefix("Large", "Deep")]
    assert [runtime.event_codec.encode(event) for _, event in bound.overlay.events] == [b"\xd2\0"]
    with pytest.raises(ValueError, match=r"list \w+ before"):
        Runtime((Large, System), VERSION)


def test_a_storage_base_carries_storage_and_one_pallet() -> None:
    with pytest.raises(TypeError, match="deep already belongs"):

        class Second(LargeStorage, index=211):
            pass

    with pytest.raises(TypeError, match="its storage base"):

        class Calling(Pallet):
            @call(index=0)
            def dig(self, origin: Signed) -> None:
                """Go down."""

    for name, told in (("events", (Sunk,)), ("errors", (Refused,))):
        with pytest.raises(TypeError, match="its storage base"):
            type("Telling", (Pallet,), {name: told})


def test_genesis_of_an_unknown_pallet_is_refused() -> None:
    with pytest.raises(ValueError, match="pallet: Shelves"):
        RUNTIME.genesis({"Shelves": {}})
