from pathlib import Path

import pytest

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.provider.blobs.store import BlobStore, Quota, StoreFullError


def test_a_blob_is_found_by_its_hash_and_survives_a_restart(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    address = store.put(b"blob")
    assert address == address_of(b"blob")
    assert BlobStore(tmp_path).get(address) == store.get(address) == b"blob"
    assert store.get(bytes(32)) is None


def test_limits_of_size_number_and_sum(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(bytes_max=100, blobs_max=3))
    for wrong in (b"", bytes(BLOB_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match="a blob has 1 to"):
            store.put(wrong)
    store.put(bytes(60))
    with pytest.raises(StoreFullError, match="try another provider"):
        store.put(bytes(41))
    store.put(bytes(20))
    store.put(bytes(19))
    with pytest.raises(StoreFullError):
        store.put(b"4")
    assert store.put(bytes(60)) == address_of(bytes(60))  # what is here costs no room
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


def test_blobs_go_when_their_life_ends(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, Quota(life_seconds=100))
    old, new = store.put(b"old", now=1000), store.put(b"new", now=1090)
    store.sweep(1101)
    assert store.get(old) is None
    assert store.get(new) == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_crash_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "draft").write_bytes(b"half")
    store = BlobStore(tmp_path)
    assert not list(tmp_path.iterdir())
    store.put(b"whole")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
