"""Blobs over HTTP: `PUT /blobs` stores one, `GET /blobs/<address in hex>` fetches it.

Invariant: bytes count only if they hash to the requested address, so any store may serve them. The client reads no
answer longer than a blob. It tries several stores side by side and requires progress of each. A search ends within a
fixed time, even if all stores stall. Connections go only to addresses that `endpoint` allows, and redirects are not
followed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
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
from wallet.errors import CodedError, harmless

FETCH_SECONDS = 8.0
STORE_SECONDS = 20.0
"""To store one blob, since a customer's uplink may be narrow."""
PATIENCE_SECONDS = 0.5
"""After this time without news, the client also tries the next store."""
SLOW_SECONDS = 1.0
GRACE_SECONDS = 3.0
ANSWER_SECONDS = 6.0
"""Before the first byte of an answer to a question, since the provider asks its node first."""
BYTES_PER_SECOND_MIN = 64 * 1024
TRANSFERS_MAX = 32
"""At once. Each may hold a blob."""
TRANSFERS_OF_STORE_MAX = 4
INVENTORIES_MAX = 512
"""At once, besides the transfers. Each is small, and a slow sender must not exclude others before a fixed deadline."""
ERROR_TEXT_BYTES_MAX = 512
PART_BYTES = 64 * 1024
BROKER_BYTES_MAX = 512
"""The most bytes of a broker's address."""
TELEMETRY_PATH = "/telemetry"
INVENTORY_PATH = "/inventory"
TUNNEL_PATH = "/tunnel/{task}"
PRESENCE_PATH = "/daemon/{nonce}"
DELIVERY_PATH = "/deliveries"

T = TypeVar("T")


SLOW_FOR_SECONDS = 600.0
STORES_KEPT = 4_096


# The stores of a blob: writers and readers compute the same list.
#
# Rendezvous hashing (Thaler, Ravishankar: A name-based mapping scheme for rendezvous, 1996): every store has a number
# for every blob, and the stores with the lowest hold it. So a reader needs no directory, load spreads evenly, and a
# leaving store moves no other store's blobs.
COPIES = 4
"""The stores that a customer puts each input into."""
STORES_ASKED_MAX = 16
"""The most stores that a client tries for one blob. Some may be offline, but a search must end."""


BYTES_MIN = 128 * 1024
"""The least bytes of a transfer that measures the line instead of the round trip."""
KEPT = 32
BITS = 8


@dataclass(slots=True)
class TransferRates:
    """Measured rates in kilobits a second, 0 without a measurement."""

    _down: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    _up: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def down_kbit(self) -> int:
        """The fastest download."""
        return max(self._down, default=0)

    @property
    def up_kbit(self) -> int:
        """The fastest upload, up to the other side's answer."""
        return max(self._up, default=0)

    def note(self, seconds: float, *, sent: int, received: int) -> None:
        """Record a transfer of `sent` and `received` bytes with its time, question and answer together."""
        size_bytes, rates = (sent, self._up) if sent > received else (received, self._down)
        # A small transfer measures the round trip and not the line.
        if size_bytes >= BYTES_MIN and seconds > 0:
            rates.append(int(size_bytes * BITS / seconds / 1_000))


def stores_for(address: bytes, endpoints: Iterable[str]) -> list[str]:
    """Return the endpoints to try for the blob `address`, best first."""
    ranked = sorted(set(endpoints), key=lambda endpoint: (blake2_256(address + endpoint.encode()), endpoint))
    return ranked[:STORES_ASKED_MAX]


class SlowStores:
    """The stores that were slow of late. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        """Start without a slow store."""
        self._slow_until: dict[str, float] = {}

    def note_slow(self, endpoint: str, now_seconds: float) -> None:
        """Record that a store kept a client waiting."""
        self._slow_until.pop(endpoint, None)
        self._slow_until[endpoint] = now_seconds + SLOW_FOR_SECONDS
        # Providers choose their endpoints, so the list needs a bound.
        while len(self._slow_until) > STORES_KEPT:
            del self._slow_until[next(iter(self._slow_until))]

    def note_quick(self, endpoint: str) -> None:
        """Record that a store answered in time."""
        self._slow_until.pop(endpoint, None)

    def last(self, endpoints: Iterable[str], now_seconds: float) -> list[str]:
        """Return the endpoints in their order, once each, with the slow ones last."""
        distinct = list(dict.fromkeys(endpoints))
        return sorted(distinct, key=lambda endpoint: self._slow_until.get(endpoint, 0.0) > now_seconds)


ANSWERED = ("store_refused", "not_stored", "answer_too_long")
"""Codes of a store that could be reached, but gave no usable answer."""


class BlobError(CodedError):
    """A blob could not be fetched or stored. The text has each store's answer.

    Codes: `blob_not_found` and `blob_not_stored` if no store helped. For one store: `not_stored`, `store_refused`,
    `store_slow`, `store_unreachable`, `answer_too_long`, `wrong_bytes`.
    """

    @property
    def is_answer(self) -> bool:
        """True if the store answered: it is online."""
        return self.code in ANSWERED


@dataclass(slots=True)
class _Refusals:
    """Each store's answer other than a blob."""

    told: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the answers in the order of arrival."""
        return "; ".join(f"{endpoint}: {text}" for endpoint, text in self.told.items()) or "no store given"


class BlobClient:
    """A pool of connections to blob stores. Use `async with BlobClient() as blobs`."""

    def __init__(self, *, private: bool = False) -> None:
        """Connect on first use. `private` also allows addresses of private networks, for development chains."""
        self._is_private = private
        self._session: aiohttp.ClientSession | None = None
        self._transfer_slots = asyncio.Semaphore(TRANSFERS_MAX)
        self._inventory_slots = asyncio.Semaphore(INVENTORIES_MAX)
        self._slots_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # Those in use
        self._slow_stores = SlowStores()
        self.rates = TransferRates()

    async def __aenter__(self) -> Self:
        """Open the pool."""
        # The check is on the connected address, not on an earlier look-up: a name can resolve differently (DNS
        # rebinding).
        connector = aiohttp.TCPConnector(
            socket_factory=None if self._is_private else public_socket,
            resolver=NameResolver(),
            limit=TRANSFERS_MAX + INVENTORIES_MAX,
        )
        # A total limit would cut long transfers off; `_read_limited` requires progress instead.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=GRACE_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def get(self, address: bytes, endpoints: Iterable[str], *, deadline_seconds: float = FETCH_SECONDS) -> bytes:
        """Return the blob of an address from the first endpoint that serves it.

        Raise `BlobError` if none does in time.
        """
        refusals = _Refusals()
        blobs = await self._try_stores(
            partial(self.get_from, address=address), endpoints, refusals, wanted=1, seconds=deadline_seconds
        )
        if not blobs:
            raise BlobError(f"blob 0x{address.hex()} was not found ({refusals})", code="blob_not_found")
        return blobs[0]

    async def get_from(self, endpoint: str, address: bytes) -> bytes:
        """Return the blob of an address from one store. Raise `BlobError` if it does not serve it."""
        blob = await self._request("GET", endpoint, f"/blobs/{address.hex()}", None)
        # Any store may serve a blob, and none is trusted: the hash decides.
        if address_of(blob) != address:
            raise BlobError("served other bytes than requested", code="wrong_bytes")
        return blob

    async def put(self, blob: bytes, endpoints: Iterable[str], copies: int = 1) -> list[str]:
        """Store a blob at the first `copies` endpoints that take it, and return these.

        Raise `BlobError` if none takes it.
        """

        async def store(endpoint: str) -> str:
            answer = await self._request("PUT", endpoint, "/blobs", blob)
            if answer != address_of(blob).hex().encode():
                raise BlobError("returned another address than that of the blob", code="wrong_bytes")
            return endpoint

        refusals = _Refusals()
        stored = await self._try_stores(store, endpoints, refusals, wanted=copies, seconds=STORE_SECONDS)
        if not stored:
            raise BlobError(f"no store took the blob ({refusals})", code="blob_not_stored")
        return stored

    async def ask(self, endpoint: str, path: str, question: bytes) -> bytes:
        """Return a provider's answer to a question: at most a blob."""
        return await self._request("POST", endpoint, path, question, ANSWER_SECONDS)

    async def broker_of(self, endpoint: str) -> str:
        """Return a provider's claimed telemetry broker, unverified."""
        broker_address = await self._request("GET", endpoint, TELEMETRY_PATH, None, byte_limit=BROKER_BYTES_MAX)
        return broker_address.decode("ascii", errors="replace")

    async def inventory_of(self, endpoint: str) -> bytes:
        """Return a provider's claimed inventory, unverified. Raise BlobError on failure, or if it is too long."""
        # A search asks every provider, so one of them must not fill the memory of all who search.
        byte_limit, slots = INVENTORY_BYTES_MAX, self._inventory_slots
        return await self._request("GET", endpoint, INVENTORY_PATH, None, byte_limit=byte_limit, slots=slots)

    async def presence_of(self, endpoint: str, nonce: bytes) -> bytes:
        """Return a daemon's answer to a nonce, unverified. Raise BlobError on failure."""
        presence_path = PRESENCE_PATH.format(nonce=nonce.hex())
        return await self._request("GET", endpoint, presence_path, None, byte_limit=PRESENCE_BYTES)

    async def _try_stores(
        self,
        work: Callable[[str], Awaitable[T]],
        endpoints: Iterable[str],
        refusals: _Refusals,
        *,
        wanted: int,
        seconds: float,
    ) -> list[T]:
        """Return the first `wanted` results of `work`, side by side. Recently slow stores come last."""
        clock_time = asyncio.get_running_loop().time

        async def attempt(endpoint: str) -> T | None:
            began_at = clock_time()
            try:
                result = await work(endpoint)
            except BlobError as refusal:
                refusals.told[endpoint] = str(refusal)
                return None
            # A cancelled attempt was overtaken by others: only a long wait counts against its store.
            except asyncio.CancelledError:
                if clock_time() - began_at >= SLOW_SECONDS:
                    refusals.told[endpoint] = "was too slow"
                    self._slow_stores.note_slow(endpoint, clock_time())
                raise
            self._slow_stores.note_quick(endpoint)
            return result

        attempts = [partial(attempt, endpoint) for endpoint in self._slow_stores.last(endpoints, clock_time())]
        return await side_by_side(attempts, wanted=wanted, patience_seconds=PATIENCE_SECONDS, deadline_seconds=seconds)

    async def _request(
        self, method: str, endpoint: str, path: str,
        body: bytes | None, grace_seconds: float | None = None,
        byte_limit: int = BLOB_BYTES_MAX, slots: asyncio.Semaphore | None = None,
    ) -> bytes:  # fmt: skip
        """Return the body of a good answer. Raise `BlobError` for every other end."""
        if self._session is None:
            raise RuntimeError("use `async with BlobClient()`")
        # An upload gets more time in proportion to its length, since the answer follows only after all of it.
        loop, timeout_seconds = (
            asyncio.get_running_loop(),
            (grace_seconds or GRACE_SECONDS) + len(body or b"") / BYTES_PER_SECOND_MIN,
        )
        try:
            url = reachable_endpoint(endpoint, is_private_allowed=self._is_private).url + path
            async with (
                self._transfer_slot(endpoint, slots or self._transfer_slots),
                asyncio.timeout(timeout_seconds) as time_limit,
            ):
                stream, began_at = None if body is None else BytesIO(body), loop.time()
                async with self._session.request(method, url, data=stream, allow_redirects=False) as answer:
                    if answer.status not in (200, 201):
                        error_text = (await answer.content.read(ERROR_TEXT_BYTES_MAX)).decode(errors="replace").strip()
                        text = f"answered {answer.status} {harmless(error_text)}".strip()
                        is_missing = answer.status == HTTPStatus.NOT_FOUND
                        raise BlobError(text, code="not_stored" if is_missing else "store_refused")
                    content = await _read_limited(answer, time_limit, loop.time(), byte_limit)
                    self.rates.note(loop.time() - began_at, sent=len(body or b""), received=len(content))
                    return content
        except TimeoutError:
            self._slow_stores.note_slow(endpoint, loop.time())
            raise BlobError("was too slow", code="store_slow") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise BlobError(f"cannot be reached ({_in_words(error)})", code="store_unreachable") from error

    @contextlib.asynccontextmanager
    async def _transfer_slot(self, endpoint: str, slots: asyncio.Semaphore) -> AsyncIterator[None]:
        """Take a part of the transfers at once. A slow store can hold up a few of them, never all."""
        store_slots = self._slots_of.get(endpoint)
        if store_slots is None:
            store_slots = self._slots_of[endpoint] = asyncio.Semaphore(TRANSFERS_OF_STORE_MAX)
        # The store's own slots first: waiting for a slow store must not hold a slot of all.
        async with store_slots, slots:
            yield


def _in_words(error: Exception) -> str:
    """Return the reason why a store cannot be reached, without the tuples and classes of Python's errors."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return harmless(cause.strerror)
    if isinstance(cause, aiohttp.ClientError):
        return "the connection broke off"
    return harmless(str(cause)) or "no connection"


async def _read_limited(
    answer: aiohttp.ClientResponse, time_limit: asyncio.Timeout, began_at: float, byte_limit: int
) -> bytes:
    """Return the whole body, at most `byte_limit` bytes. Each part extends the time limit."""
    parts, received = [], 0
    async for part in answer.content.iter_chunked(PART_BYTES):
        received += len(part)
        # Before the part is kept, since a store can send without end.
        if received > byte_limit:
            raise BlobError(f"sent more than {byte_limit:,} bytes", code="answer_too_long")
        parts.append(part)
        time_limit.reschedule(began_at + GRACE_SECONDS + received / BYTES_PER_SECOND_MIN)
    return b"".join(parts)
