"""The archive of a customer's image, fetched part by part into a file that exists until the image is loaded.

Invariants:

* A part counts only if its content has the hash in the request.
* Nothing is written beyond the request's size, which is at most `IMAGE_ARCHIVE_BYTES_MAX`.
* The number of files is limited. A file is deleted when it is loaded or refused, and when a daemon starts.
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
"""Archives fetched or loaded at once. Each takes disk space up to the limit."""
FETCH_SECONDS = 300.0
"""The time for all parts. Waiting longer would delay other bids."""
FETCHED_AT_ONCE = 4
FREE_BYTES_LEAST = 1 << 30
"""The disk space that an archive must leave free."""
WRITE_BYTES = 1 << 20
GZIP_WINDOW = 31


class ImageSpool:
    """The folder for archives while they are loaded."""

    def __init__(self, spool_folder: Path) -> None:
        """The first use removes the remains of an earlier daemon."""
        self._spool_folder = spool_folder
        self._turns = asyncio.Semaphore(SPOOLED_MAX)
        self._is_clean = False

    def path(self, container_id: str) -> Path:
        """Return the path of a program's archive."""
        return self._spool_folder / f"{container_id}.tar"

    @contextlib.asynccontextmanager
    async def laid(self, parts: Parts[NetworkPort], image: ArchivedImage, container_id: str) -> AsyncIterator[None]:
        """Provide an archive at its path while the context lasts.

        Raise UnfitProgramError for an invalid archive, ProgramError if it is unavailable, or ChainError or OSError.
        """
        check_asked(image)
        async with self._turns:
            self._clean()
            archive_path = self.path(container_id)
            if shutil.disk_usage(self._spool_folder).free < image.size + FREE_BYTES_LEAST:
                raise ProgramError("the disk has no room for the image's archive", code="disk_full")
            try:
                async with asyncio.timeout(FETCH_SECONDS):
                    await _fetched(parts, image, archive_path)
                yield
            except TimeoutError:
                raise ProgramError(
                    f"the image's archive did not arrive within {FETCH_SECONDS:.0f} s", code="image_too_slow"
                ) from None
            finally:
                # The engine has its own copy by now, and a refused archive is worthless.
                archive_path.unlink(missing_ok=True)

    def _clean(self) -> None:
        if not self._is_clean:
            shutil.rmtree(self._spool_folder, ignore_errors=True)
            self._spool_folder.mkdir(mode=0o700, parents=True)
            self._is_clean = True


def check_asked(image: ArchivedImage) -> None:
    """Raise UnfitProgramError for an archive without parts or beyond the size limit."""
    if not image.parts or not 0 < image.size <= IMAGE_ARCHIVE_BYTES_MAX:
        raise UnfitProgramError(
            f"the image's archive has {image.size:,} bytes in {len(image.parts)} parts, of at most "
            f"{IMAGE_ARCHIVE_BYTES_MAX:,} bytes",
            code="image_too_large",
        )


async def _fetched(parts: Parts[NetworkPort], image: ArchivedImage, archive_path: Path) -> None:
    endpoints = endpoints_of(await parts.chain.providers())
    unpacker, remaining = zlib.decompressobj(GZIP_WINDOW), image.size
    with archive_path.open("xb") as file:
        # A few at a time, because each part is a whole blob in memory.
        for first_part in range(0, len(image.parts), FETCHED_AT_ONCE):
            parts_at_once = image.parts[first_part : first_part + FETCHED_AT_ONCE]
            for content in await asyncio.gather(*(_part(parts, part, endpoints) for part in parts_at_once)):
                remaining = await asyncio.to_thread(_write, file, unpacker, content, remaining)
    # Trailing data is refused too: the request's size would not cover it.
    if remaining or not unpacker.eof or unpacker.unused_data:
        raise UnfitProgramError("the image's archive differs from its stated size", code="wrong_image_size")


async def _part(parts: Parts[NetworkPort], part: ImagePart, endpoints: list[str]) -> bytes:
    try:
        sealed_blob = await parts.blobs.get(part.blob, stores_for(part.blob, endpoints))
    except BlobError as error:
        raise ProgramError(f"a part of the image cannot be fetched: {error}", code=error.code) from None
    try:
        content = parts.identity.seal_key.open(sealed_blob)
    except SealError as error:
        raise UnfitProgramError(f"a part of the image cannot be opened: {error}", code="sealed_to_others") from None
    if blake2_256(content) != part.root:
        raise UnfitProgramError("a part of the image does not match its hash", code="other_hash")
    return content


def _write(file: BinaryIO, unpacker: zlib._Decompress, content: bytes, remaining: int) -> int:
    """Write the unpacked content of a part, and return the bytes still to come.

    Raise UnfitProgramError if the archive is longer than its size.
    """
    packed = content
    while packed and not unpacker.eof:
        try:
            # One byte more than is left, so that an archive beyond its size is noticed. Never more: gzip can expand a
            # thousandfold.
            plain = unpacker.decompress(packed, min(WRITE_BYTES, remaining + 1))
        except zlib.error:
            raise UnfitProgramError("the image's archive has the wrong compression", code="wrong_compression") from None
        remaining -= len(plain)
        if remaining < 0:
            raise UnfitProgramError("the image's archive is longer than its stated size", code="wrong_image_size")
        file.write(plain)
        packed = unpacker.unconsumed_tail
    return remaining
