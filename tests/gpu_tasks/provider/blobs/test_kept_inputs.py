"""Copies of inputs in work: within a limit of bytes, as long as a duty needs them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.pieces import PIECE_BYTES, in_pieces
from gpu_tasks.data.sealing import address_of
from gpu_tasks.provider.blobs.kept_inputs import InputUse, KeptInputs
from gpu_tasks.provider.blobs.store import BlobStore, Quota, StoreFullError

LOOKED_AT, ANSWERED = InputUse.LOOKED_AT, InputUse.ANSWERED


def an_input(number: int, size: int = 40) -> bytes:
    return bytes([number]) * size


def unit_of(number: int) -> bytes:
    return bytes([number]) * 32


class Shelf:
    """A store with room for some bytes of inputs, and its kept inputs."""

    def __init__(self, folder: Path, bytes_max: int = 100, blobs_max: int = 20_000) -> None:
        self.folder = folder
        self.quota = Quota(bytes_max=80, blobs_max=8, input_bytes_max=bytes_max, input_blobs_max=blobs_max)
        self.open()

    def open(self) -> None:
        """Open the store as a new process does."""
        self.store = BlobStore(self.folder, self.quota)
        self.kept = KeptInputs(self.store)

    def work(self, number: int, use: InputUse = ANSWERED, size: int = 40) -> None:
        """Keep the input of unit `number`."""
        blob = an_input(number, size)
        self.kept.name(address_of(blob), use, unit_of(number))
        self.kept.keep(address_of(blob), blob)

    def there(self) -> set[int]:
        """Return the numbers of the kept units."""
        return {blob[0] for address in self.store.inputs if (blob := self.store.get(address)) is not None}


def test_inputs_that_are_needed_take_no_more_than_their_limit(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.work(1)
    shelf.work(2)
    with pytest.raises(StoreFullError, match=r"80 of 100 .*2 blobs.* 40 more"):
        shelf.work(3)
    assert shelf.there() == {1, 2}
    assert shelf.store.input_bytes == sum(path.stat().st_size for path in tmp_path.iterdir()) == 80
    shelf.store.put(an_input(7), is_own=True)  # own results have no limit, and take no room of strangers
    shelf.store.put(an_input(8))
    assert (shelf.store.input_bytes, shelf.store.bytes_stored) == (80, 40)


def test_their_number_is_limited_too(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, blobs_max=2)
    for number in (1, 2):
        shelf.work(number, size=1)
    with pytest.raises(StoreFullError):
        shelf.work(3, size=1)


def test_an_input_goes_when_the_last_unit_that_needs_it_is_over(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.work(1)
    shelf.kept.name(address_of(an_input(1)), LOOKED_AT, unit_of(9))
    shelf.kept.release([unit_of(1), unit_of(5)])
    assert shelf.there() == {1}
    shelf.kept.release([unit_of(9)])
    assert not list(tmp_path.iterdir())
    assert not shelf.kept.units_in_turn(5, ())


def test_pieces_that_two_inputs_share_stay_for_the_other(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, bytes_max=20 * PIECE_BYTES)
    for number in (1, 2):
        blobs = in_pieces(bytes(PIECE_BYTES) + an_input(number, PIECE_BYTES))
        shelf.kept.name(address_of(blobs[-1]), ANSWERED, unit_of(number))
        for blob in blobs:
            shelf.kept.keep(address_of(blobs[-1]), blob)
    assert len(shelf.store.inputs) == 5
    shelf.kept.release([unit_of(1)])
    assert len(shelf.store.inputs) == 3
    assert address_of(bytes(PIECE_BYTES)) in shelf.store.inputs


def test_what_nobody_needs_makes_room_before_what_was_looked_at(tmp_path: Path) -> None:
    """After a restart no duty needs the earlier inputs, unless the journal has an answer for them."""
    shelf = Shelf(tmp_path)
    shelf.work(1)
    shelf.work(2)
    shelf.open()
    shelf.kept.recall(address_of(an_input(1)), ANSWERED, unit_of(1))
    shelf.work(3, LOOKED_AT)
    assert shelf.there() == {1, 3}
    shelf.work(4, ANSWERED)
    assert shelf.there() == {1, 4}
    with pytest.raises(StoreFullError):
        shelf.work(5, LOOKED_AT)
    assert shelf.there() == {1, 4}, "what was answered makes no room for what is looked at"


def test_an_input_in_pieces_is_recalled_whole(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, bytes_max=3 * PIECE_BYTES)
    blobs = in_pieces(bytes(PIECE_BYTES) + an_input(1, PIECE_BYTES))
    root = address_of(blobs[-1])
    shelf.kept.name(root, ANSWERED, unit_of(1))
    for blob in blobs:
        shelf.kept.keep(root, blob)
    shelf.open()
    shelf.kept.recall(root, ANSWERED, unit_of(1))
    with pytest.raises(StoreFullError):
        shelf.work(2, size=PIECE_BYTES)
    assert set(shelf.store.inputs) == {address_of(blob) for blob in blobs}


def test_the_oldest_that_nobody_needs_goes_first_and_no_more_than_is_wanted(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for number, at in ((1, 300.0), (2, 100.0), (3, 200.0)):
        shelf.store.keep(an_input(number, 30), now_seconds=at)
    shelf.work(4, size=25)
    assert shelf.there() == {1, 3, 4}


def test_what_a_customer_brought_stays_a_strangers_and_lives_from_its_use_on(tmp_path: Path) -> None:
    """An input kept for others must not be removed for lack of room, or when this provider no longer needs it."""
    shelf = Shelf(tmp_path)
    address = shelf.store.put(an_input(1), now_seconds=0)
    shelf.kept.name(address, LOOKED_AT, unit_of(1))
    shelf.kept.keep(address, an_input(1))
    assert (shelf.store.input_bytes, shelf.store.bytes_stored) == (0, 40)
    shelf.store.sweep(2.0 * shelf.quota.life_seconds)
    assert shelf.store.get(address) is not None
    shelf.kept.release([unit_of(1)])
    assert shelf.store.get(address) is not None


def test_what_is_brought_while_it_is_worked_on_stays_when_that_ends(tmp_path: Path) -> None:
    """Its customer received a promise of storage, also if there is no room for strangers."""
    shelf = Shelf(tmp_path)
    shelf.work(1)
    shelf.work(2)
    shelf.store.put(an_input(1))
    assert (shelf.store.input_bytes, shelf.store.bytes_stored) == (40, 40)
    shelf.store.put(an_input(3, 41 - 1))
    with pytest.raises(StoreFullError):
        shelf.store.put(an_input(2))
    shelf.kept.release([unit_of(1), unit_of(2)])
    assert shelf.store.get(address_of(an_input(1))) == an_input(1)
    assert shelf.store.get(address_of(an_input(2))) is None


def test_the_units_are_told_in_turn(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for number in range(5):
        shelf.kept.name(unit_of(number), ANSWERED, unit_of(number))
    told = [shelf.kept.units_in_turn(2, [unit_of(3)]) for _ in range(2)]
    assert sorted(unit for units in told for unit in units) == [unit_of(number) for number in (0, 1, 2, 4)]


def test_of_a_task_whose_input_has_ended_nothing_is_remembered(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    root = address_of(an_input(1))
    shelf.kept.name(root, ANSWERED, None)
    shelf.kept.keep(root, an_input(1))
    shelf.kept.release([unit_of(1)])
    assert shelf.there() == {1}
    shelf.store.sweep(10**12)
    shelf.kept.release([])
    assert not shelf.kept._kept


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60), st.sampled_from(InputUse), st.booleans()), max_size=25)
)
def test_whatever_is_worked_on_the_limit_holds_and_what_matters_more_stays(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, InputUse, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("blobs")
    shelf = Shelf(folder)
    for number, size, use, ends in steps:
        answered = {root for root, kept in shelf.kept._kept.items() if kept.use is ANSWERED}
        before = answered & set(shelf.store.inputs)
        if ends:
            shelf.kept.release([unit_of(number)])
        else:
            try:
                shelf.work(number, use, size)
            except StoreFullError:
                assert shelf.store.input_bytes + size > 100
            assert before <= set(shelf.store.inputs)
        assert shelf.store.input_bytes == sum(path.stat().st_size for path in folder.iterdir()) <= 100
    again = BlobStore(folder, shelf.quota)
    assert (again.input_bytes, set(again.inputs)) == (shelf.store.input_bytes, set(shelf.store.inputs))
