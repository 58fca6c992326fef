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
    async def laid(
        self, daemon_parts: Parts[NetworkPort], image: ArchivedImage, container_id: str
    ) -> AsyncIterator[None]:
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
                    await _fetched(daemon_parts, image, archive_path)
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


def check_asked(archived_image: ArchivedImage) -> None:
    """Raise UnfitProgramError for an archive without parts or beyond the size limit."""
    if not archived_image.parts or not 0 < archived_image.size <= IMAGE_ARCHIVE_BYTES_MAX:
        raise UnfitProgramError(
            f"the image's archive has {archived_image.size:,} bytes in {len(archived_image.parts)} parts, of at most "
            f"{IMAGE_ARCHIVE_BYTES_MAX:,} bytes",
            code="image_too_large",
        )


async def _fetched(daemon_parts: Parts[NetworkPort], archived_image: ArchivedImage, archive_path: Path) -> None:
    endpoints = endpoints_of(await daemon_parts.chain.providers())
    unpacker, remaining_bytes = zlib.decompressobj(GZIP_WINDOW), archived_image.size
    with archive_path.open("xb") as archive_file:
        # A few at a time, because each part is a whole blob in memory.
        for first_part in range(0, len(archived_image.parts), FETCHED_AT_ONCE):
            parts_at_once = archived_image.parts[first_part : first_part + FETCHED_AT_ONCE]
            for part_content in await asyncio.gather(
                *(_part(daemon_parts, image_part, endpoints) for image_part in parts_at_once)
            ):
                remaining_bytes = await asyncio.to_thread(_write, archive_file, unpacker, part_content, remaining_bytes)
    # Trailing data is refused too: the request's size would not cover it.
    if remaining_bytes or not unpacker.eof or unpacker.unused_data:
        raise UnfitProgramError("the image's archive differs from its stated size", code="wrong_image_size")


async def _part(daemon_parts: Parts[NetworkPort], image_part: ImagePart, endpoints: list[str]) -> bytes:
    try:
        sealed_blob = await daemon_parts.blobs.get(image_part.blob, stores_for(image_part.blob, endpoints))
    except BlobError as error:
        raise ProgramError(f"a part of the image cannot be fetched: {error}", code=error.code) from None
    try:
        part_content = daemon_parts.identity.seal_key.open(sealed_blob)
    except SealError as error:
        raise UnfitProgramError(f"a part of the image cannot be opened: {error}", code="sealed_to_others") from None
    if blake2_256(part_content) != image_part.root:
        raise UnfitProgramError("a part of the image does not match its hash", code="other_hash")
    return part_content


def _write(archive_file: BinaryIO, unpacker: zlib._Decompress, part_content: bytes, remaining_bytes: int) -> int:
    """Write the unpacked content of a part, and return the bytes still to come.

    Raise UnfitProgramError if the archive is longer than its size.
    """
    packed_bytes = part_content
    while packed_bytes and not unpacker.eof:
        try:
            # One byte more than is left, so that an archive beyond its size is noticed. Never more: gzip can expand a
            # thousandfold.
            plain_bytes = unpacker.decompress(packed_bytes, min(WRITE_BYTES, remaining_bytes + 1))
        except zlib.error:
            raise UnfitProgramError("the image's archive has the wrong compression", code="wrong_compression") from None
        remaining_bytes -= len(plain_bytes)
        if remaining_bytes < 0:
            raise UnfitProgramError("the image's archive is longer than its stated size", code="wrong_image_size")
        archive_file.write(plain_bytes)
        packed_bytes = unpacker.unconsumed_tail
    return remaining_bytes
