"""Blobs over HTTP: `PUT /blobs` stores one, `GET /blobs/<address in hex>` fetches it.

Always: bytes count only if they hash to the address asked for, so it does not matter who serves them; no answer longer
than a blob may be is read; several stores are tried side by side, each has to make progress, and the whole ends within
a fixed time, whatever the stores do; connections go to what `endpoint` allows, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakValueDictionary

import aiohttp

from gpu_tasks.data.endpoint import public_socket, reachable_endpoint
from gpu_tasks.data.inventory import INVENTORY_BYTES_MAX
from gpu_tasks.data.name_lookup import NameResolver
from gpu_tasks.data.presence import PRESENCE_BYTES
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.data.side_by_side import side_by_side
from runtime.cryptography.hashing import blake2_256
from wallet.errors import harmless

FETCH_SECONDS = 8.0
STORE_SECONDS = 20.0
"""To store one blob: a customer's way out may be narrow."""
PATIENCE_SECONDS = 0.5
"""After so long without news the next store is tried beside."""
SLOW_SECONDS = 1.0
GRACE_SECONDS = 3.0
ANSWER_SECONDS = 6.0
"""Before the first byte of an answer to a question: the provider asks its node first."""
BYTES_PER_SECOND_MIN = 64 * 1024
TRANSFERS_MAX = 32
"""At once: each may hold a blob."""
TRANSFERS_OF_STORE_MAX = 4
INVENTORIES_MAX = 512
"""At once, beside: each is small, and who drips must not have others left out of what ends in a fixed time."""
ERROR_TEXT_BYTES_MAX = 512
PART_BYTES = 64 * 1024
BROKER_BYTES_MAX = 512
"""Of a broker's address."""
TELEMETRY_PATH = "/telemetry"
INVENTORY_PATH = "/inventory"
TUNNEL_PATH = "/tunnel/{task}"
PRESENCE_PATH = "/daemon/{nonce}"

T = TypeVar("T")


SLOW_FOR_SECONDS = 600.0
STORES_KEPT = 4_096


# Which blob stores keep a blob: the same answer for whoever writes it and whoever looks for it.
#
# Rendezvous hashing (Thaler, Ravishankar: A name-based mapping scheme for rendezvous, 1996): every store has a number
# for every blob, and the lowest hold it. So a reader needs no directory, load spreads evenly, and a store that leaves
# moves no other store's blobs.
COPIES = 4
"""Stores that a customer puts each input into."""
STORES_ASKED_MAX = 16
"""Stores that anybody tries for one blob: some may be away, but a search ends."""


BYTES_MIN = 128 * 1024
"""Of a transfer that says something of the line, and not of the way to and fro alone."""
KEPT = 32
BITS = 8


@dataclass(slots=True)
class TransferRates:
    """Kilobits a second; 0 where nothing was measured."""

    _down: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    _up: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def down_kbit(self) -> int:
        """The fastest that came."""
        return max(self._down, default=0)

    @property
    def up_kbit(self) -> int:
        """The fastest that went, up to the other's answer."""
        return max(self._up, default=0)

    def note(self, seconds: float, *, sent: int, received: int) -> None:
        """A transfer of so many bytes took so long, question and answer together."""
        size, rates = (sent, self._up) if sent > received else (received, self._down)
        if size >= BYTES_MIN and seconds > 0:
            rates.append(int(size * BITS / seconds / 1_000))


def stores_for(address: bytes, endpoints: Iterable[str]) -> list[str]:
    """The endpoints to try for the blob `address`, best first."""
    ranked = sorted(set(endpoints), key=lambda endpoint: (blake2_256(address + endpoint.encode()), endpoint))
    return ranked[:STORES_ASKED_MAX]


class SlowStores:
    """Times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        """None was slow."""
        self._until: dict[str, float] = {}

    def note_slow(self, endpoint: str, now: float) -> None:
        """It kept somebody waiting."""
        self._until.pop(endpoint, None)
        self._until[endpoint] = now + SLOW_FOR_SECONDS
        while len(self._until) > STORES_KEPT:
            del self._until[next(iter(self._until))]

    def note_quick(self, endpoint: str) -> None:
        """It answered in time."""
        self._until.pop(endpoint, None)

    def last(self, endpoints: Iterable[str], now: float) -> list[str]:
        """The endpoints in their order, once each, but for the slow ones, which come last."""
        known = list(dict.fromkeys(endpoints))
        return sorted(known, key=lambda endpoint: self._until.get(endpoint, 0.0) > now)


class BlobError(Exception):
    """A blob could not be fetched, or stored; the text says what each store answered."""


@dataclass(slots=True)
class _Refusals:
    """What each store answered, as far as it is no blob."""

    told: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """In the order in which they came."""
        return "; ".join(f"{endpoint}: {text}" for endpoint, text in self.told.items()) or "no store to ask"


class BlobClient:
    """A pool of connections to blob stores. Use `async with BlobClient() as blobs`."""

    def __init__(self, *, private: bool = False) -> None:
        """Connects when first used; with `private` to addresses of own networks too: for development chains."""
        self._is_private = private
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(TRANSFERS_MAX)
        self._inventory_slots = asyncio.Semaphore(INVENTORIES_MAX)
        self._slots_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # those in use
        self._slow = SlowStores()
        self.rates = TransferRates()

    async def __aenter__(self) -> Self:
        """Open the pool."""
        # What is connected to is looked at, not what a name said before: names change their minds.
        connector = aiohttp.TCPConnector(
            socket_factory=None if self._is_private else public_socket,
            resolver=NameResolver(),
            limit=TRANSFERS_MAX + INVENTORIES_MAX,
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=GRACE_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def get(self, address: bytes, endpoints: Iterable[str], *, seconds: float = FETCH_SECONDS) -> bytes:
        """The blob of an address from the first endpoint that serves it; `BlobError` if none does in time."""

        async def fetch(endpoint: str) -> bytes:
            blob = await self._request("GET", endpoint, f"/blobs/{address.hex()}", None)
            if address_of(blob) != address:
                raise BlobError("served other bytes than asked for")
            return blob

        refusals = _Refusals()
        found = await self._tried(fetch, endpoints, refusals, wanted=1, seconds=seconds)
        if not found:
            raise BlobError(f"blob 0x{address.hex()} was not found ({refusals})")
        return found[0]

    async def put(self, blob: bytes, endpoints: Iterable[str], copies: int = 1) -> list[str]:
        """Store a blob at the first `copies` endpoints that take it; where it lies. `BlobError` if none took it."""

        async def store(endpoint: str) -> str:
            answer = await self._request("PUT", endpoint, "/blobs", blob)
            if answer != address_of(blob).hex().encode():
                raise BlobError("stored something else")
            return endpoint

        refusals = _Refusals()
        stored = await self._tried(store, endpoints, refusals, wanted=copies, seconds=STORE_SECONDS)
        if not stored:
            raise BlobError(f"no store took the blob ({refusals})")
        return stored

    async def ask(self, endpoint: str, path: str, question: bytes) -> bytes:
        """What a provider answers to a question: at most a blob."""
        return await self._request("POST", endpoint, path, question, ANSWER_SECONDS)

    async def broker_of(self, endpoint: str) -> str:
        """Where a provider says that its telemetry is heard; what it says is a stranger's word."""
        found = await self._request("GET", endpoint, TELEMETRY_PATH, None, most=BROKER_BYTES_MAX)
        return found.decode("ascii", errors="replace")

    async def inventory_of(self, endpoint: str) -> bytes:
        """What a provider says that its machine has, unread; BlobError, also where that is more than it may be."""
        most, slots = INVENTORY_BYTES_MAX, self._inventory_slots
        return await self._request("GET", endpoint, INVENTORY_PATH, None, most=most, slots=slots)

    async def presence_of(self, endpoint: str, nonce: bytes) -> bytes:
        """Fetch a daemon's answer to a nonce, unverified; BlobError."""
        path = PRESENCE_PATH.format(nonce=nonce.hex())
        return await self._request("GET", endpoint, path, None, most=PRESENCE_BYTES)

    async def _tried(
        self,
        work: Callable[[str], Awaitable[T]],
        endpoints: Iterable[str],
        refusals: _Refusals,
        *,
        wanted: int,
        seconds: float,
    ) -> list[T]:
        """The first `wanted` results of `work`, side by side; those that were slow of late are tried last."""
        now = asyncio.get_running_loop().time

        async def attempt(endpoint: str) -> T | None:
            began = now()
            try:
                result = await work(endpoint)
            except BlobError as error:
                refusals.told[endpoint] = str(error)
                return None
            except asyncio.CancelledError:
                if now() - began >= SLOW_SECONDS:
                    refusals.told[endpoint] = "was too slow"
                    self._slow.note_slow(endpoint, now())
                raise
            self._slow.note_quick(endpoint)
            return result

        tries = [partial(attempt, endpoint) for endpoint in self._slow.last(endpoints, now())]
        return await side_by_side(tries, wanted=wanted, patience_seconds=PATIENCE_SECONDS, deadline_seconds=seconds)

    async def _request(
        self, verb: str, endpoint: str, path: str, body: bytes | None, grace: float | None = None,
        most: int = BLOB_BYTES_MAX, slots: asyncio.Semaphore | None = None,
    ) -> bytes:  # fmt: skip
        """The body of a good answer; `BlobError` for every other end."""
        if self._session is None:
            raise RuntimeError("use `async with BlobClient()`")
        loop, seconds = asyncio.get_running_loop(), (grace or GRACE_SECONDS) + len(body or b"") / BYTES_PER_SECOND_MIN
        try:
            url = reachable_endpoint(endpoint, private=self._is_private).url + path
            async with self._slot(endpoint, slots or self._slots), asyncio.timeout(seconds) as limit:
                data, began = None if body is None else BytesIO(body), loop.time()
                async with self._session.request(verb, url, data=data, allow_redirects=False) as answer:
                    if answer.status not in (200, 201):
                        text = (await answer.content.read(ERROR_TEXT_BYTES_MAX)).decode(errors="replace").strip()
                        raise BlobError(f"answered {answer.status} {harmless(text)}".strip())
                    found = await _read_limited(answer, limit, loop.time(), most)
                    self.rates.note(loop.time() - began, sent=len(body or b""), received=len(found))
                    return found
        except TimeoutError:
            self._slow.note_slow(endpoint, loop.time())
            raise BlobError("was too slow") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise BlobError(f"cannot be reached ({_in_words(error)})") from error

    @contextlib.asynccontextmanager
    async def _slot(self, endpoint: str, slots: asyncio.Semaphore) -> AsyncIterator[None]:
        """A part of what may run at once; one store that drips holds a few transfers up, and not all."""
        of_store = self._slots_of.get(endpoint)
        if of_store is None:
            of_store = self._slots_of[endpoint] = asyncio.Semaphore(TRANSFERS_OF_STORE_MAX)
        async with of_store, slots:
            yield


def _in_words(error: Exception) -> str:
    """Why a store cannot be reached, as people say it: these errors show Python's tuples and classes."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return harmless(cause.strerror)
    if isinstance(cause, aiohttp.ClientError):
        return "the connection broke off"
    return harmless(str(cause)) or "no connection"


async def _read_limited(answer: aiohttp.ClientResponse, limit: asyncio.Timeout, began: float, most: int) -> bytes:
    """The whole body, at most so many bytes; each part gives it more time."""
    parts, length = [], 0
    async for part in answer.content.iter_chunked(PART_BYTES):
        length += len(part)
        if length > most:
            raise BlobError(f"sent more than {most:,} bytes")
        parts.append(part)
        limit.reschedule(began + GRACE_SECONDS + length / BYTES_PER_SECOND_MIN)
    return b"".join(parts)
