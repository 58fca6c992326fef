"""Parameters in their pallets: valid declarations, the value in a block, and refusals by genesis and relations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encoding.codec import U8, U32
from runtime.encoding.type_info import PrimitiveShape, VariantsShape
from runtime.encoding.types import Balance, RuntimeVersion
from runtime.frame.pallet import Constant, Pallet, Parameter, StorageValue
from runtime.frame.parameter import ParameterChange, change_codec
from runtime.frame.relations import Relation
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.storage import storage_prefix
from runtime.state.overlay import Memory

VERSION = RuntimeVersion("test", "test", 1, 1, 1, (), 1, 1)


class GardenNumbers(Pallet):
    """A ground with a number."""

    beds: Parameter[U8] = Parameter(4, unit="beds", least=1, greatest=9, doc="More cannot be weeded.")


class Garden(GardenNumbers, index=70):
    """Two numbers more, and one of each other kind."""

    rent: Parameter[Balance] = Parameter(50, unit="grains", least=10, greatest=10**12, doc="Water is dear.")
    gates: Parameter[U8] = Parameter(1, unit="gates", is_frozen=True, doc="One is enough.")
    paths: Constant[U32] = Constant(2)
    plants: StorageValue[U32] = StorageValue(default=0)


ROOMY = Relation("there is room to walk", ("Garden.paths", ("Garden.paths", 4)), ("Garden.beds", 3), "weeds grow")
RUNTIME = Runtime((Garden,), VERSION)


def of(runtime: Runtime, parameters: dict[str, int] | None = None) -> Memory:
    return Memory().updated(runtime.genesis({}, parameters))


def changed(state: Memory, parameter: Parameter[Any], value: int) -> Memory:
    bound = RUNTIME.at(state)
    bound.parameters.change(parameter, value)
    return state.updated(bound.overlay.changes())


def test_a_parameter_is_a_number_to_its_pallet_and_a_declaration_to_others() -> None:
    bound = RUNTIME.at(of(RUNTIME))
    assert (bound[Garden].beds, bound[Garden].rent, bound[Garden].gates) == (4, 50, 1)
    assert (Garden.rent.name, Garden.rent.unit, Garden.rent.least) == ("Garden.rent", "grains", 10)
    assert Garden.beds.name == "Garden.beds", "a ground's number is the pallet's"


def test_it_lies_under_its_pallet_where_every_client_looks() -> None:
    state = of(RUNTIME)
    assert state.get(storage_prefix("Garden", "Rent")) == (50).to_bytes(16, "little")
    assert RUNTIME.item(Garden.rent.item).prefix == storage_prefix("Garden", "Rent")


def test_a_state_without_it_has_the_default_of_the_chain() -> None:
    assert Runtime((Garden,), VERSION, {"Garden.rent": 99}).at(Memory())[Garden].rent == 99


@pytest.mark.parametrize(
    "wrong",
    [
        {"least": 1},
        {"greatest": 9},
        {},
        {"least": 5, "greatest": 9},
        {"least": 1, "greatest": 3},
        {"least": 1, "greatest": 9, "is_frozen": True},
    ],
)
def test_a_declaration_has_both_bounds_around_its_default_or_is_frozen(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Parameter[int](4, unit="beds", doc="", **wrong)


def test_a_parameter_belongs_to_one_pallet() -> None:
    with pytest.raises(TypeError):
        type("Other", (GardenNumbers,), {}, index=71)


def test_a_change_holds_from_the_next_block_on() -> None:
    state = of(RUNTIME)
    bound = RUNTIME.at(state)
    assert bound.parameters.change(Garden.rent, 60) == 50
    assert bound.parameters.change(Garden.rent, 70) == 60
    assert bound[Garden].rent == 50, "whatever else is in its block, the block goes by what was"
    assert bound.parameters.changed()["Garden.rent"] == 70
    assert RUNTIME.at(state.updated(bound.overlay.changes()))[Garden].rent == 70


def test_a_change_that_is_undone_leaves_nothing() -> None:
    bound = RUNTIME.at(of(RUNTIME))
    with pytest.raises(KeyError), bound.overlay.transaction():
        bound.parameters.change(Garden.rent, 60)
        raise KeyError
    assert bound.parameters.changed()["Garden.rent"] == bound[Garden].rent == 50


def test_genesis_writes_every_parameter_and_takes_others() -> None:
    state = of(RUNTIME, {"Garden.rent": 10, "Garden.beds": 9})
    assert len(state.values) == 3
    assert RUNTIME.at(state)[Garden].rent == 10
    assert RUNTIME.at(state)[Garden].beds == 9


class Gardener(Pallet, index=72):
    """Uses a parameter when block 0 is made."""

    garden: Garden
    kept: StorageValue[Balance] = StorageValue(default=0)

    def genesis(self, config: dict[str, Any]) -> None:
        """Note the rent."""
        self.kept.set(self.garden.rent)


def test_the_genesis_of_pallets_goes_by_the_numbers_that_were_given() -> None:
    runtime = Runtime((Garden, Gardener), VERSION)
    assert runtime.at(of(runtime, {"Garden.rent": 77}))[Gardener].kept.get() == 77


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"Garden.rent": 9}, "Garden.rent is 9, "),
        ({"Garden.beds": 10}, "Garden.beds is 10, outside"),
        ({"Garden.gates": 2}, "frozen"),
        ({"Garden.paths": 2}, "Garden.paths, .* constant"),
        ({"Garden.doors": 2}, "parameter: Garden.doors$"),
    ],
)
def test_genesis_refuses_what_no_parameter_is(given: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RUNTIME.genesis({}, given)


def test_a_chain_gives_no_value_beyond_bounds() -> None:
    with pytest.raises(ValueError, match=r"Garden\.beds is 0"):
        Runtime((Garden,), VERSION, {"Garden.beds": 0})


def test_a_relation_is_a_sum_against_a_sum() -> None:
    assert ROOMY.formula() == "Garden.paths + Garden.paths x 4 >= Garden.beds + 3"
    assert ROOMY.names() == ("Garden.paths", "Garden.paths", "Garden.beds")
    assert ROOMY.holds({"Garden.paths": 2, "Garden.beds": 7}), "equal is enough"
    assert not ROOMY.holds({"Garden.paths": 2, "Garden.beds": 8})
    assert ROOMY.explained({"Garden.paths": 2, "Garden.beds": 8}).endswith("is 10 >= 11")


def test_genesis_refuses_numbers_that_break_a_relation_and_names_it() -> None:
    runtime = Runtime((Garden,), VERSION, relations=(ROOMY,))
    assert runtime.genesis({}, {"Garden.beds": 7})
    with pytest.raises(ValueError, match=r"walk: .* is 10 >= 11"):
        runtime.genesis({}, {"Garden.beds": 8})


def test_a_relation_about_a_number_that_nobody_declares_is_refused() -> None:
    with pytest.raises(ValueError, match=r"number: .*: Garden\.paths"):
        Runtime((), VERSION, relations=(ROOMY,))
    Runtime((), VERSION, outside={"Garden.paths": 2, "Garden.beds": 3}, relations=(ROOMY,)).genesis({})


@given(st.sampled_from([Garden.beds, Garden.rent, Garden.gates]), st.integers(0, 255))
def test_a_change_is_read_back_from_its_bytes(parameter: Parameter[Any], value: int) -> None:
    codec = change_codec((Garden,))
    raw = codec.encode(ParameterChange(parameter, value))
    assert raw[:2] == bytes((70, list(Garden.parameters.values()).index(parameter)))
    assert codec.decode(raw) == ParameterChange(parameter, value)


def test_clients_see_a_choice_of_pallets_of_their_parameters_each_with_its_type_and_reason() -> None:
    shape = change_codec((Garden,)).info.shape
    assert isinstance(shape, VariantsShape)
    (pallet,) = shape.variants
    assert (pallet.name, pallet.index) == ("Garden", 70)
    inner = pallet.fields[0].type.shape
    assert isinstance(inner, VariantsShape)
    shown = [(each.name, each.index, each.fields[0].type.shape, each.docs) for each in inner.variants]
    assert shown[:2] == [
        ("Beds", 0, PrimitiveShape("u8"), ("More cannot be weeded.",)),
        ("Rent", 1, PrimitiveShape("u128"), ("Water is dear.",)),
    ]


def test_metadata_tells_reason_unit_and_bounds() -> None:
    assert Garden.rent.item.doc == "Water is dear.\nIn grains, 10 to 1000000000000."
    assert Garden.gates.item.doc == "One is enough.\nFrozen: no origin can change it. In gates."


def test_the_book_refuses_to_write_what_is_none() -> None:
    book = Bound(RUNTIME, of(RUNTIME)).parameters
    with pytest.raises(AssertionError):
        book.change(Garden.beds, 10)
    with pytest.raises(AssertionError):
        book.change(Garden.gates, 1)
