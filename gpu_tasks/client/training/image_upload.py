"""The archive of an image on its way into blob stores, part by part.

Always: each part is sealed to who may bid or judge, and to the customer; a part that is stored is written down before
the next one goes, so that the same command goes on behind it; what is written down counts for the same readers only,
and for half as long as stores keep what strangers bring.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_tasks.client.image_files import ArchiveFile
from gpu_tasks.data.blob_client import COPIES, BlobClient, BlobError, stores_for
from gpu_tasks.data.sealing import address_of, seal
from gpu_tasks.tasks.container_request import IMAGE_PARTS_MAX, ImagePart
from runtime.cryptography.hashing import blake2_256
from wallet.private_file import make_folder, replace

AT_ONCE = 4
FRESH_SECONDS = 12 * 3_600
RECORD_BYTES_MAX = 64 * 1024


@dataclass(slots=True)
class UploadRecord:
    """Which parts are stored, and since when; a damaged one is none."""

    path: Path
    began_at: float
    parts: dict[int, ImagePart] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, identity: Sequence[bytes], now: float) -> UploadRecord:
        """As an earlier try left it; OSError where none can be written."""
        folder = folder.expanduser()
        make_folder(folder)
        path = folder / f"image-{blake2_256(b''.join(blake2_256(each) for each in identity)).hex()}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            began_at, parts = _read(path)
            if 0 <= now - began_at < FRESH_SECONDS:
                return cls(path, began_at, parts)
        return cls(path, now)

    def note(self, number: int, part: ImagePart) -> None:
        """A part is stored. OSError."""
        self.parts[number] = part
        parts = {str(each): [stored.blob.hex(), stored.root.hex()] for each, stored in sorted(self.parts.items())}
        replace(self.path, json.dumps({"began_at": self.began_at, "parts": parts}).encode())


@dataclass(frozen=True, slots=True)
class Uploader:
    """Stores the parts of one image for some readers."""

    blobs: BlobClient
    readers: Sequence[bytes]
    endpoints: Sequence[str]
    say: Callable[[str], None]

    async def uploaded(self, image: ArchiveFile, folder: Path, identity: Sequence[bytes]) -> list[ImagePart]:
        """All of its parts, stored now or by an earlier try; BlobError, ImageFileError, OSError."""
        parts = await asyncio.to_thread(image.parts)
        record = UploadRecord.open(folder, (*identity, image.sha256, *sorted(self.readers)), time.time())
        if record.parts and not await self._is_kept(record):
            record.parts.clear()
            record.began_at = time.time()
        missing = [number for number in range(len(parts)) if not _is_of(record.parts.get(number), parts[number])]
        if missing:
            self.say(f"the image goes into the stores: {len(missing)} of {len(parts)} parts, up to a mebibyte each")
        turn = asyncio.Semaphore(AT_ONCE)

        async def store(number: int) -> None:
            async with turn:
                blob = await asyncio.to_thread(seal, parts[number], self.readers)
                await self.blobs.put(blob, stores_for(address_of(blob), self.endpoints), COPIES)
                record.note(number, ImagePart(address_of(blob), blake2_256(parts[number])))

        try:
            async with asyncio.TaskGroup() as group:
                for number in missing:
                    group.create_task(store(number))
        except* (BlobError, OSError) as errors:
            stored = f"{len(record.parts)} of {len(parts)} parts of the image are stored, and the same command goes on"
            raise BlobError(f"{_first(errors)}. {stored}") from None
        return [record.parts[number] for number in range(len(parts))]

    async def _is_kept(self, record: UploadRecord) -> bool:
        """Whether a store still has the first part of an earlier try: those of another network have none."""
        part = record.parts[min(record.parts)]
        try:
            await self.blobs.get(part.blob, stores_for(part.blob, self.endpoints))
        except BlobError:
            return False
        return True


def _is_of(stored: ImagePart | None, part: bytes) -> bool:
    return stored is not None and stored.root == blake2_256(part)


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _read(path: Path) -> tuple[float, dict[int, ImagePart]]:
    with path.open("rb") as file:
        found = json.loads(file.read(RECORD_BYTES_MAX))
    parts = {
        int(number): ImagePart(bytes.fromhex(blob), bytes.fromhex(root))
        for number, (blob, root) in found["parts"].items()
    }
    if len(parts) > IMAGE_PARTS_MAX or any(len(part.blob) != 32 or len(part.root) != 32 for part in parts.values()):
        raise ValueError("no parts")
    return float(found["began_at"]), parts
