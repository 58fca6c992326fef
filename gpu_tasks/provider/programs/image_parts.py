"""The archive of a customer's image, fetched part by part into a file of its own, for as long as it is loaded.

Always: a part counts only if its content has the hash that the request names; nothing is written beyond the size that
the request names, and no request may name more than `IMAGE_ARCHIVE_BYTES_MAX`; so many files lie here at once and no
more, and none when it is loaded, refused, or the daemon begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from gpu_tasks.data.blob_client import BlobError, stores_for
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.sealing import SealError
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.programs.requests import ProgramError, UnfitProgramError
from gpu_tasks.tasks.container_request import IMAGE_ARCHIVE_BYTES_MAX, ArchivedImage, ImagePart
from runtime.cryptography.hashing import blake2_256

SPOOLED_MAX = 2
"""Archives that are fetched or loaded at once: each takes as much of the disk as it may have."""
FETCH_SECONDS = 300.0
"""For all of its parts: who waits for more is not kept from bidding for others."""
FETCHED_AT_ONCE = 4
FREE_BYTES_LEAST = 1 << 30
"""What an archive must leave free of the disk."""
WRITE_BYTES = 1 << 20
GZIP_WINDOW = 31


class ImageSpool:
    """Where archives lie while they are loaded."""

    def __init__(self, folder: Path) -> None:
        """Whatever an earlier daemon left there goes when the first one comes."""
        self._folder = folder
        self._turns = asyncio.Semaphore(SPOOLED_MAX)
        self._is_clean = False

    def path(self, container_id: str) -> Path:
        """Where the archive of a program lies."""
        return self._folder / f"{container_id}.tar"

    @contextlib.asynccontextmanager
    async def laid(self, parts: Parts[NetworkPort], image: ArchivedImage, container_id: str) -> AsyncIterator[None]:
        """Have an archive at its path; UnfitProgramError for one that is none, ProgramError where it is not to be had.

        ChainError and OSError too.
        """
        check_asked(image)
        async with self._turns:
            self._clean()
            path = self.path(container_id)
            if shutil.disk_usage(self._folder).free < image.size + FREE_BYTES_LEAST:
                raise ProgramError("the disk has no room for the archive of its image")
            try:
                async with asyncio.timeout(FETCH_SECONDS):
                    await _fetched(parts, image, path)
                yield
            except TimeoutError:
                raise ProgramError(f"the archive of its image is not here after {FETCH_SECONDS:.0f} s") from None
            finally:
                path.unlink(missing_ok=True)

    def _clean(self) -> None:
        if not self._is_clean:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True)
            self._is_clean = True


def check_asked(image: ArchivedImage) -> None:
    """UnfitProgramError for an archive that nobody fetches."""
    if not image.parts or not 0 < image.size <= IMAGE_ARCHIVE_BYTES_MAX:
        raise UnfitProgramError(
            f"the archive of its image has {image.size:,} bytes in {len(image.parts)} parts, "
            f"and {IMAGE_ARCHIVE_BYTES_MAX:,} are taken at most"
        )


async def _fetched(parts: Parts[NetworkPort], image: ArchivedImage, path: Path) -> None:
    endpoints = endpoints_of(await parts.chain.providers())
    unpacker, left = zlib.decompressobj(GZIP_WINDOW), image.size
    with path.open("xb") as file:
        for begin in range(0, len(image.parts), FETCHED_AT_ONCE):
            some = image.parts[begin : begin + FETCHED_AT_ONCE]
            for content in await asyncio.gather(*(_part(parts, part, endpoints) for part in some)):
                left = await asyncio.to_thread(_write, file, unpacker, content, left)
    if left or not unpacker.eof or unpacker.unused_data:
        raise UnfitProgramError("the archive of its image is not what its size says")


async def _part(parts: Parts[NetworkPort], part: ImagePart, endpoints: list[str]) -> bytes:
    try:
        blob = await parts.blobs.get(part.blob, stores_for(part.blob, endpoints))
    except BlobError as error:
        raise ProgramError(f"a part of its image is not to be had: {error}") from None
    try:
        content = parts.identity.seal_key.open(blob)
    except SealError as error:
        raise UnfitProgramError(f"a part of its image cannot be opened: {error}") from None
    if blake2_256(content) != part.root:
        raise UnfitProgramError("a part of its image is another than its hash names")
    return content


def _write(file: BinaryIO, unpacker: zlib._Decompress, content: bytes, left: int) -> int:
    """Write what a part comes to; how much of the archive is still to come. UnfitProgramError for too much."""
    packed = content
    while packed and not unpacker.eof:
        try:
            plain = unpacker.decompress(packed, min(WRITE_BYTES, left + 1))
        except zlib.error:
            raise UnfitProgramError("the archive of its image is not compressed as it must be") from None
        left -= len(plain)
        if left < 0:
            raise UnfitProgramError("the archive of its image is longer than its size says")
        file.write(plain)
        packed = unpacker.unconsumed_tail
    return left
