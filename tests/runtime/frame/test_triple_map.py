"""The map with three keys: the SDK's layout as a public client computes it, and the read cost of a prefix."""

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from substrateinterface.storage import StorageKey

from counted_reads import CountingReader
from public_client import PublicClient
from runtime.encoding.codec import U8, U32
from runtime.encoding.types import AccountId
from runtime.frame.api import Apis
from runtime.frame.pallet import Hasher, Pallet, Signed, StorageTripleMap, call
from runtime.frame.runtime import Runtime
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V14, METADATA_V15, MapEntry, TupleDef
from runtime.interface.standard_apis import STANDARD_APIS
from runtime.state.overlay import Memory
from small_chain import runtime_of
from wallet.proved.keys import map_keys, prefix_of

WHO, OTHER = b"w" * 32, b"o" * 32


class Warehouse(Pallet, index=160):
    """Has one of each kind."""

    places: StorageTripleMap[AccountId, U32, U8, U32] = StorageTripleMap(default=7, doc="What lies where.")
    seals: StorageTripleMap[U32, AccountId, U8, AccountId | None] = StorageTripleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT, Hasher.IDENTITY), name="Marks"
    )

    @call(index=0)
    def put(self, origin: Signed, shelf: U32, box: U8, what: U32) -> None:
        """Put."""
        self.places[origin.account, shelf, box] = what


RUNTIME = Runtime((*runtime_of().pallets, Warehouse), runtime_of().version)
APIS = Apis(RUNTIME, STANDARD_APIS)
KEYS = st.tuples(st.sampled_from((WHO, OTHER)), st.integers(0, 2), st.integers(0, 2))


@pytest.mark.parametrize(
    ("item", "keys"),
    [
        (Warehouse.places, (WHO, 7, 3)),
        (Warehouse.places, (OTHER, 2**32 - 1, 0)),
        (Warehouse.seals, (7, WHO, 3)),
    ],
)
def test_the_storage_key_is_what_a_public_client_computes(
    item: StorageTripleMap[Any, Any, Any, Any], keys: Any
) -> None:
    client = PublicClient(metadata(APIS, 14))
    shown = ["0x" + key.hex() if isinstance(key, bytes) else key for key in keys]
    theirs = StorageKey.create_from_storage_function(
        "Warehouse", item.name, shown, client._configuration, client.metadata
    )
    known = RUNTIME.item(item)
    assert known.key(keys) == theirs.data
    assert map_keys(known, known.key(keys)) == keys
    for count in (1, 2):
        part = StorageKey.create_from_storage_function(
            "Warehouse", item.name, shown[:count], client._configuration, client.metadata
        )
        assert prefix_of(known, keys[:count]) == part.data
        assert known.key(keys).startswith(part.data)


@pytest.mark.parametrize("version", [14, 15])
def test_metadata_names_three_hashers_and_a_key_of_three_parts(version: int) -> None:
    raw = metadata(APIS, version)[5:]
    described: Any = METADATA_V14.decode(raw) if version == 14 else METADATA_V15.decode(raw)
    pallets = [each if version == 14 else each.pallet for each in described.pallets]
    (warehouse,) = [each for each in pallets if each.name == "Warehouse"]
    places, marks = warehouse.storage.entries
    for entry, hashers in ((places, (2, 2, 2)), (marks, (5, 2, 6))):
        assert isinstance(entry.type, MapEntry)
        assert entry.type.hashers == hashers
        key = described.types[entry.type.key].definition
        assert isinstance(key, TupleDef)
        assert len(key.types) == 3
    assert (marks.name, marks.modifier, places.modifier) == ("Marks", 0, 1)


@given(
    st.dictionaries(KEYS, st.integers(0, 9), max_size=12),
    st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), max_size=8),
)
def test_it_agrees_with_a_dictionary(
    start: dict[tuple[bytes, int, int], int], script: list[tuple[tuple[bytes, int, int], int | None]]
) -> None:
    first = RUNTIME.at(Memory())
    for place, kept in start.items():
        first[Warehouse].places[place] = kept
    bound = RUNTIME.at(Memory().updated(first.overlay.changes()))
    places, model = bound[Warehouse].places, dict(start)
    for keys, value in script:
        if value is None:
            del places[keys]
            model.pop(keys, None)
        else:
            places[keys] = value
            model[keys] = value
        assert places[keys] == model.get(keys, 7)
        assert (keys in places) == (keys in model)
    assert dict(places.items()) == model
    assert [places.key(keys) for keys, _ in places.items()] == sorted(places.key(keys) for keys in model)
    for who in (WHO, OTHER):
        assert dict(places.under(who)) == {keys[1:]: kept for keys, kept in model.items() if keys[0] == who}
        for shelf in range(3):
            expected = {keys[2]: kept for keys, kept in model.items() if keys[:2] == (who, shelf)}
            assert dict(places.under(who, shelf)) == expected


def test_each_key_is_read_behind_its_own_hasher() -> None:
    seals = RUNTIME.at(Memory())[Warehouse].seals
    for shelf, who, box in ((7, WHO, 3), (7, WHO, 4), (7, OTHER, 3), (8, WHO, 3)):
        seals[shelf, who, box] = who
    assert sorted(seals.items()) == [((7, OTHER, 3), OTHER), ((7, WHO, 3), WHO), ((7, WHO, 4), WHO), ((8, WHO, 3), WHO)]
    assert sorted(seals.under(7)) == [((OTHER, 3), OTHER), ((WHO, 3), WHO), ((WHO, 4), WHO)]
    assert list(seals.under(7, WHO)) == [(3, WHO), (4, WHO)], "unhashed keys come in their order"


@pytest.mark.parametrize("count", [100, 20_000])
def test_a_prefix_costs_what_it_returns(count: int) -> None:
    """Over stored entries, some of them changed or removed in the block, and new ones of the block."""
    first = RUNTIME.at(Memory())
    for number in range(count):
        first[Warehouse].places[WHO, number % 2, 0] = 1
        first[Warehouse].places[number.to_bytes(32, "big"), 1, 1] = number
    below = CountingReader(Memory(dict(first.overlay.changes())))  # type: ignore[arg-type]
    bound = RUNTIME.at(below)
    places = bound[Warehouse].places
    for number in range(count):
        places[number.to_bytes(32, "big"), 1, number % 200] = 5
        if number % 2:
            del places[number.to_bytes(32, "big"), 1, 1]
    places[WHO, 1, 2] = 6
    below.reads = 0
    assert sorted(places.under(WHO)) == [((0, 0), 1), ((1, 0), 1), ((1, 2), 6)]
    assert sorted(places.under(WHO, 1)) == [(0, 1), (2, 6)]
    assert not list(places.under(OTHER))
    assert not list(places.under(WHO, 9))
    assert below.reads <= 5
    below.reads = 0
    assert len(list(islice(places.items(), 10))) == 10
    assert below.reads <= 40
