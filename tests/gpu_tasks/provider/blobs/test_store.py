from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.provider.blobs.store import BlobKind, BlobStore, Quota, StoreFullError


def test_a_blob_is_found_by_its_hash_and_survives_a_restart(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    address = store.put(b"blob")
    assert address == address_of(b"blob")
    assert BlobStore(tmp_path).get(address) == store.get(address) == b"blob"
    assert store.get(bytes(32)) is None


def test_limits_of_size_number_and_sum(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(bytes_max=100, blobs_max=3))
    for wrong in (b"", bytes(BLOB_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match="has 1 to"):
            store.put(wrong)
    store.put(bytes(60))
    with pytest.raises(StoreFullError, match="try another provider"):
        store.put(bytes(41))
    store.put(bytes(20))
    store.put(bytes(19))
    with pytest.raises(StoreFullError):
        store.put(b"4")
    assert store.put(bytes(60)) == address_of(bytes(60))  # a present blob costs no room
    assert store.bytes_stored == 99


def test_strangers_never_take_the_room_of_own_outputs(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(bytes_max=10, blobs_max=1))
    store.put(b"stranger")
    own = store.put(bytes(1000), is_own=True)
    assert store.get(own) == bytes(1000)
    assert store.bytes_stored == 8
    again = BlobStore(tmp_path, Quota(bytes_max=10, blobs_max=1))
    assert again.get(own) == bytes(1000)
    assert again.bytes_stored == 8


def test_a_strangers_blob_that_becomes_an_own_output_stays_readable(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    address = store.put(b"same")
    assert store.put(b"same", is_own=True) == address
    assert store.get(address) == b"same"
    assert BlobStore(tmp_path).get(address) == b"same"
    store.sweep(10**12)
    assert store.get(address) is None
    assert not list(tmp_path.iterdir())


def test_a_strangers_blob_that_becomes_an_own_output_gives_its_room_back(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(blobs_max=8))  # one for each address
    store.put(b"same", stranger="203.0.113.7")
    with pytest.raises(StoreFullError):
        store.put(b"next", stranger="203.0.113.7")
    store.put(b"same", is_own=True)
    assert store.bytes_stored == 0
    store.put(b"next", stranger="203.0.113.7")
    assert len(list(tmp_path.iterdir())) == 2


def test_blobs_go_when_their_life_ends(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(life_seconds=100))
    old, new = store.put(b"old", now_seconds=1000), store.put(b"new", now_seconds=1090)
    store.sweep(1101)
    assert store.get(old) is None
    assert store.get(new) == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_becomes_ones_own_again_lives_from_then_on(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(life_seconds=100))
    address = store.put(b"input", now_seconds=0)
    for now in (90, 180, 150):
        store.put(b"input", is_own=True, now_seconds=now)
    store.put(b"input", now_seconds=250)  # strangers prolong nothing
    store.sweep(280)
    assert store.get(address) == b"input"
    again = BlobStore(tmp_path, Quota(life_seconds=100))
    again.sweep(280)
    assert again.get(address) == b"input"
    for each in (store, again):
        each.sweep(281)
        assert each.get(address) is None


def test_what_a_crash_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "draft").write_bytes(b"half")
    store = BlobStore(tmp_path)
    assert not list(tmp_path.iterdir())
    store.put(b"whole")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_crash_between_an_own_output_and_the_strangers_blob_leaves_one_of_them(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    address = store.put(b"same", is_own=True)
    (tmp_path / f"{address.hex()}.blob").write_bytes(b"same")
    again = BlobStore(tmp_path)
    assert again.bytes_stored == 0
    assert again.get(address) == b"same"
    assert [path.suffix for path in tmp_path.iterdir()] == [".own"]


@pytest.mark.parametrize("kept", [".own", ".blob"])
def test_a_crash_while_an_input_becomes_another_kind_leaves_one_of_them(tmp_path: Path, kept: str) -> None:
    """The new kind is written first, then the input is removed. The sender had no answer yet."""
    address = BlobStore(tmp_path).keep(b"same")
    (tmp_path / f"{address.hex()}{kept}").write_bytes(b"same")
    again = BlobStore(tmp_path)
    assert again.get(address) == b"same"
    (path,) = tmp_path.iterdir()
    assert path.suffix == (".own" if kept == ".own" else ".input")
    assert (again.input_bytes, again.bytes_stored) == (0 if kept == ".own" else len(b"same"), 0)


PUT = st.tuples(st.integers(1, 30), st.booleans(), st.sampled_from([None, "1.2.3.4", "5.6.7.8"]), st.integers(0, 50))


@given(st.lists(PUT, max_size=25))
def test_whatever_comes_the_quota_and_each_share_hold_and_every_byte_is_counted(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[int, bool, str | None, int]]
) -> None:
    folder = tmp_path_factory.mktemp("blobs")
    quota = Quota(bytes_max=100, blobs_max=8, life_seconds=60, address_part=2)
    store, now = BlobStore(folder, quota), 1_000.0
    for size, is_own, stranger, later in puts:
        now += later
        with suppress(StoreFullError):
            store.put(bytes(size), is_own=is_own, stranger=stranger, now_seconds=now)
        strangers = [stored for stored in store._blobs.values() if stored.kind is BlobKind.STRANGERS]
        assert store.bytes_stored == sum(stored.size for stored in strangers) <= 100
        assert len(strangers) <= 8
        for who in ("1.2.3.4", "5.6.7.8"):
            of_who = [stored.size for stored in strangers if stored.stranger == who]
            assert sum(of_who) <= 50
            assert len(of_who) <= 4
    on_disk = {path.stem: path.stat().st_size for path in folder.iterdir()}
    assert on_disk == {name: stored.size for name, stored in store._blobs.items()}
    store.sweep(10**12)
    assert (store.bytes_stored, dict(store._by_stranger), list(folder.iterdir())) == (0, {}, [])
