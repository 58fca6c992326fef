"""Archives of images, fetched part by part: the parts that a stranger may name, and the few bytes written."""

import asyncio
import gzip
import os
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.provider.programs import image_parts
from gpu_tasks.provider.programs.image_parts import SPOOLED_MAX, ImageSpool
from gpu_tasks.provider.programs.requests import ProgramError, UnfitProgramError
from gpu_tasks.tasks.container_request import IMAGE_ARCHIVE_BYTES_MAX, ArchivedImage, ImagePart
from runtime.cryptography.hashing import blake2_256

KEY = SealKey(b"p" * 32)
CONTENT = os.urandom(40_000) + bytes(40_000)


class Stores:
    """A fake of all stores."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}

    async def get(self, address: bytes, endpoints: Sequence[str]) -> bytes:
        await asyncio.sleep(0)
        if address not in self.blobs:
            raise BlobError("nobody has it")
        return self.blobs[address]

    def image(self, packed: bytes, size: int, reader: SealKey = KEY, part_bytes: int = 7_000) -> ArchivedImage:
        """Return an image whose parts are stored here."""
        parts = []
        for begin in range(0, len(packed), part_bytes):
            part = packed[begin : begin + part_bytes]
            blob = seal(part, [reader.public])
            self.blobs[address_of(blob)] = blob
            parts.append(ImagePart(address_of(blob), blake2_256(part)))
        return ArchivedImage(b"i" * 32, size, tuple(parts))


@dataclass
class FakeParts:
    """The daemon's answers."""

    blobs: Stores
    identity: Any
    chain: Any


def parts_of(stores: Stores) -> Any:
    class Chain:
        async def providers(self) -> dict[bytes, Any]:
            return {}

    return FakeParts(stores, type("Identity", (), {"seal_key": KEY}), Chain())


def laid(folder: Path, stores: Stores, image: ArchivedImage) -> bytes:
    async def scene() -> bytes:
        spool = ImageSpool(folder)
        async with spool.laid(parts_of(stores), image, "a-1"):
            return spool.path("a-1").read_bytes()

    return asyncio.run(scene())


def test_an_archive_is_put_together_and_gone_once_it_is_loaded(tmp_path: Path) -> None:
    stores, folder = Stores(), tmp_path / "new" / "images"
    image = stores.image(gzip.compress(CONTENT), len(CONTENT))
    assert laid(folder, stores, image) == CONTENT, "no daemon was here before"
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "left-by-a-daemon-before").write_bytes(b"x")
    assert len(image.parts) > 4
    assert laid(folder, stores, image) == CONTENT
    assert list(folder.iterdir()) == []


def damaged(stores: Stores, what: str) -> ArchivedImage:
    packed = gzip.compress(CONTENT)
    image = stores.image(packed, len(CONTENT))
    other = ImagePart(image.parts[0].blob, bytes(32))
    return {
        "longer": replace(image, size=len(CONTENT) - 1),
        "shorter": replace(image, size=len(CONTENT) + 1),
        "another part": replace(image, parts=(other, *image.parts[1:])),
        "no gzip": stores.image(CONTENT, len(CONTENT)),
        "cut": replace(image, parts=image.parts[:-1]),
        "more behind it": stores.image(packed + packed, len(CONTENT)),
        "for others": stores.image(packed, len(CONTENT), SealKey(b"o" * 32)),
        "no blob": stores.image(packed, len(CONTENT)),
        "no parts": replace(image, parts=()),
        "nothing": replace(image, size=0),
        "huge": replace(image, size=IMAGE_ARCHIVE_BYTES_MAX + 1),
    }[what]


@pytest.mark.parametrize(
    "what",
    ["longer", "shorter", "another part", "no gzip", "cut", "more behind it", "for others", "no parts", "nothing",
     "huge"],
)  # fmt: skip
def test_what_is_no_such_archive_is_not_bid_for_and_leaves_nothing(tmp_path: Path, what: str) -> None:
    stores = Stores()
    with pytest.raises(UnfitProgramError):
        laid(tmp_path / "images", stores, damaged(stores, what))
    assert list(tmp_path.glob("images/*")) == []


def test_a_bomb_is_written_no_further_than_its_size_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores, written = Stores(), list[int]()
    monkeypatch.setattr(image_parts, "WRITE_BYTES", 1_000)
    honest = image_parts._write

    def counted(file: Any, *rest: Any) -> int:
        try:
            return honest(file, *rest)
        finally:
            written.append(file.tell())

    monkeypatch.setattr(image_parts, "_write", counted)
    bomb = stores.image(gzip.compress(bytes(100_000_000)), 5_000, part_bytes=500_000)
    tracemalloc.start()
    try:
        with raises_code(UnfitProgramError, "wrong_image_size"):
            laid(tmp_path / "images", stores, bomb)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert max(written) <= 5_000


def test_what_is_not_to_be_had_now_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores()
    image = stores.image(gzip.compress(CONTENT), len(CONTENT))
    gone = replace(image, parts=(*image.parts, ImagePart(bytes(32), bytes(32))))
    with pytest.raises(ProgramError, match="cannot be fetched"):
        laid(tmp_path / "images", stores, gone)
    monkeypatch.setattr(image_parts, "FREE_BYTES_LEAST", 1 << 60)
    with raises_code(ProgramError, "disk_full"):
        laid(tmp_path / "images", stores, image)


def test_stores_that_are_slow_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Stores):
        async def get(self, address: bytes, endpoints: Sequence[str]) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError("never")

    stores = Slow()
    monkeypatch.setattr(image_parts, "FETCH_SECONDS", 0.01)
    with raises_code(ProgramError, "image_too_slow"):
        laid(tmp_path / "images", stores, stores.image(gzip.compress(CONTENT), len(CONTENT)))
    assert list(tmp_path.glob("images/*")) == []


async def test_so_many_lie_there_at_once_and_no_more(tmp_path: Path) -> None:
    def in_spool() -> int:
        return len(list((tmp_path / "images").iterdir()))

    stores, spool, may_end = Stores(), ImageSpool(tmp_path / "images"), asyncio.Event()
    image, most = stores.image(gzip.compress(CONTENT), len(CONTENT)), 0

    async def load(number: int) -> None:
        nonlocal most
        async with spool.laid(parts_of(stores), image, f"a-{number}"):
            most = max(most, in_spool())
            await may_end.wait()

    tasks = [asyncio.create_task(load(number)) for number in range(SPOOLED_MAX + 3)]
    for _ in range(200):
        await asyncio.sleep(0.001)
    may_end.set()
    await asyncio.gather(*tasks)
    assert most == SPOOLED_MAX
