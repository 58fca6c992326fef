"""Blobs over HTTP: `PUT /blobs` stores one, `GET /blobs/<address in hex>` fetches it.

Always: bytes count only if they hash to the address asked for, so it does not matter who serves them; no answer longer
than a blob may be is read; redirects are not followed, and every request ends within a fixed time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from io import BytesIO
from types import TracebackType
from typing import Self

import aiohttp

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of

CONNECT_SECONDS = 3.0
TRANSFER_SECONDS = 30.0
PARALLEL_REQUESTS = 16
ERROR_TEXT_BYTES_MAX = 512

_TIMEOUT = aiohttp.ClientTimeout(total=TRANSFER_SECONDS, sock_connect=CONNECT_SECONDS)


class BlobError(Exception):
    """A blob could not be fetched, or stored; the text says what each store answered."""


class BlobClient:
    """A pool of connections to blob stores. Use `async with BlobClient() as blobs`."""

    def __init__(self) -> None:
        """Connects when first used."""
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(PARALLEL_REQUESTS)

    async def __aenter__(self) -> Self:
        """Open the pool."""
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def get(self, address: bytes, endpoints: Iterable[str]) -> bytes:
        """The blob of an address from the first endpoint that has it; `BlobError` if none does."""
        refusals = []
        for endpoint in endpoints:
            try:
                return await self._get_from(endpoint, address)
            except BlobError as error:
                refusals.append(f"{endpoint}: {error}")
        reasons = "; ".join(refusals) or "no store to ask"
        raise BlobError(f"blob 0x{address.hex()} was not found ({reasons})")

    async def put(self, blob: bytes, endpoints: Iterable[str], copies: int = 1) -> list[str]:
        """Store a blob at the first `copies` endpoints that take it; where it lies. `BlobError` if none took it."""
        stored: list[str] = []
        refusals = []
        for endpoint in endpoints:
            if len(stored) == copies:
                break
            try:
                await self._put_to(endpoint, blob)
                stored.append(endpoint)
            except BlobError as error:
                refusals.append(f"{endpoint}: {error}")
        if not stored:
            raise BlobError(f"no store took the blob ({'; '.join(refusals) or 'no store to ask'})")
        return stored

    async def ask(self, url: str, question: bytes) -> bytes:
        """What a provider answers to a question: at most a blob."""
        return await self._request("POST", url, question)

    async def _get_from(self, endpoint: str, address: bytes) -> bytes:
        blob = await self._request("GET", f"{endpoint.rstrip('/')}/blobs/{address.hex()}", None)
        if address_of(blob) != address:
            raise BlobError("served other bytes than asked for")
        return blob

    async def _put_to(self, endpoint: str, blob: bytes) -> None:
        answer = await self._request("PUT", f"{endpoint.rstrip('/')}/blobs", blob)
        if answer != address_of(blob).hex().encode():
            raise BlobError("stored something else")

    async def _request(self, verb: str, url: str, body: bytes | None) -> bytes:
        """The body of a good answer; `BlobError` for every other end."""
        if self._session is None:
            raise RuntimeError("use `async with BlobClient()`")
        try:
            async with (
                self._slots,
                self._session.request(
                    verb, url, data=None if body is None else BytesIO(body), allow_redirects=False
                ) as answer,
            ):
                if answer.status not in (200, 201):
                    text = (await answer.content.read(ERROR_TEXT_BYTES_MAX)).decode(errors="replace").strip()
                    raise BlobError(f"answered {answer.status} {text}".strip())
                return await _read_limited(answer)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise BlobError(f"cannot be reached ({type(error).__name__}: {error})") from error


async def _read_limited(answer: aiohttp.ClientResponse) -> bytes:
    parts, length = [], 0
    async for part in answer.content.iter_chunked(64 * 1024):
        length += len(part)
        if length > BLOB_BYTES_MAX:
            raise BlobError(f"sent more than {BLOB_BYTES_MAX:,} bytes")
        parts.append(part)
    return b"".join(parts)
