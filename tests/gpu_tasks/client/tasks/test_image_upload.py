"""Parts of an image on their way into stores: each once, whatever broke off before."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.client.tasks.orders import FRESH_SECONDS, ArchiveFile, Uploader
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import SealKey, address_of
from gpu_tasks.tasks.container_request import ImagePart
from runtime.cryptography.hashing import blake2_256

PARTS = tuple(bytes([number]) * 1_000 for number in range(6))
READER = SealKey(b"r" * 32)
WHO = (b"genesis", b"account")


class Stores:
    """All stores as one, which takes so many blobs."""

    def __init__(self, takes: int = 99) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.puts = 0
        self.takes = takes

    async def put(self, blob: bytes, endpoints: Sequence[str], copies: int) -> list[str]:
        await asyncio.sleep(0)
        if len(self.blobs) >= self.takes:
            raise BlobError("no store took the blob (full)")
        self.puts += 1
        self.blobs[address_of(blob)] = blob
        return list(endpoints)

    async def get(self, address: bytes, endpoints: Sequence[str]) -> bytes:
        if address not in self.blobs:
            raise BlobError("not found")
        return self.blobs[address]


def upload(stores: Stores, folder: Path, reader: SealKey = READER) -> list[ImagePart]:
    blobs: Any = stores
    uploader = Uploader(blobs, [reader.public], ["http://store.test"], lambda _: None)
    image = ArchiveFile(Path("tool.tar"), b"i" * 32, 9_000, PARTS)
    return asyncio.run(uploader.uploaded(image, folder, WHO))


def test_every_part_is_sealed_and_named_by_its_content(tmp_path: Path) -> None:
    stores = Stores()
    parts = upload(stores, tmp_path)
    assert [READER.open(stores.blobs[part.blob]) for part in parts] == list(PARTS)
    assert [part.root for part in parts] == [blake2_256(part) for part in PARTS]


def test_what_broke_off_goes_on_behind_what_is_stored(tmp_path: Path) -> None:
    stores = Stores(takes=3)
    with pytest.raises(BlobError, match=r"full.*3 of 6 parts of the image are stored, and the same command goes on"):
        upload(stores, tmp_path)
    stores.takes = 99
    parts = upload(stores, tmp_path)
    assert stores.puts == len(PARTS)
    assert [READER.open(stores.blobs[part.blob]) for part in parts] == list(PARTS)
    assert upload(stores, tmp_path) == parts, "the same image is stored once, also for another task"
    assert stores.puts == len(PARTS)


def test_other_readers_and_stores_that_have_nothing_get_all_of_it(tmp_path: Path) -> None:
    stores = Stores()
    upload(stores, tmp_path)
    upload(stores, tmp_path, SealKey(b"q" * 32))
    assert stores.puts == 2 * len(PARTS)
    upload(Stores(), tmp_path)
    fresh = Stores()
    assert all(part.blob in fresh.blobs for part in upload(fresh, tmp_path))


def test_what_is_written_down_grows_old_and_damage_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores()
    upload(stores, tmp_path)
    (record,) = tmp_path.glob("image-*.json")
    kept = record.read_bytes()
    for damaged in (b"", b"[]", b"{", b'{"began_at": 0}', b"[" * 50_000, json.dumps(
        {"began_at": json.loads(kept)["began_at"], "parts": {"0": ["00", "00"]}}
    ).encode()):  # fmt: skip
        record.write_bytes(damaged)
        before = stores.puts
        upload(stores, tmp_path)
        assert stores.puts == before + len(PARTS)
    record.write_bytes(kept)
    began_at, before = json.loads(kept)["began_at"], stores.puts
    monkeypatch.setattr(time, "time", lambda: began_at + FRESH_SECONDS + 1)
    upload(stores, tmp_path)
    assert stores.puts == before + len(PARTS)
