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

    def note(self, transfer_seconds: float, *, sent: int, received: int) -> None:
        """Record a transfer of `sent` and `received` bytes with its time, question and answer together."""
        size_bytes, measured_rates = (sent, self._up) if sent > received else (received, self._down)
        # A small transfer measures the round trip and not the line.
        if size_bytes >= BYTES_MIN and transfer_seconds > 0:
            measured_rates.append(int(size_bytes * BITS / transfer_seconds / 1_000))


def stores_for(blob_address: bytes, endpoints: Iterable[str]) -> list[str]:
    """Return the endpoints to try for the blob `blob_address`, best first."""
    ranked_endpoints = sorted(
        set(endpoints), key=lambda endpoint: (blake2_256(blob_address + endpoint.encode()), endpoint)
    )
    return ranked_endpoints[:STORES_ASKED_MAX]


class SlowStores:
    """The stores that were slow of late. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        """Start without a slow store."""
        self._slow_until: dict[str, float] = {}

    def note_slow(self, endpoint: str, current_time: float) -> None:
        """Record that a store kept a client waiting."""
        self._slow_until.pop(endpoint, None)
        self._slow_until[endpoint] = current_time + SLOW_FOR_SECONDS
        # Providers choose their endpoints, so the list needs a bound.
        while len(self._slow_until) > STORES_KEPT:
            del self._slow_until[next(iter(self._slow_until))]

    def note_quick(self, endpoint: str) -> None:
        """Record that a store answered in time."""
        self._slow_until.pop(endpoint, None)

    def last(self, endpoints: Iterable[str], current_time: float) -> list[str]:
        """Return the endpoints in their order, once each, with the slow ones last."""
        distinct_endpoints = list(dict.fromkeys(endpoints))
        return sorted(distinct_endpoints, key=lambda endpoint: self._slow_until.get(endpoint, 0.0) > current_time)


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
        return (
            "; ".join(f"{endpoint}: {refusal_text}" for endpoint, refusal_text in self.told.items()) or "no store given"
        )


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
        client_timeout = aiohttp.ClientTimeout(total=None, sock_connect=GRACE_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=client_timeout)
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
        found_blobs = await self._try_stores(
            partial(self.get_from, address=address), endpoints, refusals, wanted_count=1, seconds=deadline_seconds
        )
        if not found_blobs:
            raise BlobError(f"blob 0x{address.hex()} was not found ({refusals})", code="blob_not_found")
        return found_blobs[0]

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
            stored_address = await self._request("PUT", endpoint, "/blobs", blob)
            if stored_address != address_of(blob).hex().encode():
                raise BlobError("returned another address than that of the blob", code="wrong_bytes")
            return endpoint

        refusals = _Refusals()
        storing_endpoints = await self._try_stores(
            store, endpoints, refusals, wanted_count=copies, seconds=STORE_SECONDS
        )
        if not storing_endpoints:
            raise BlobError(f"no store took the blob ({refusals})", code="blob_not_stored")
        return storing_endpoints

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
        byte_limit, transfer_slots = INVENTORY_BYTES_MAX, self._inventory_slots
        return await self._request(
            "GET", endpoint, INVENTORY_PATH, None, byte_limit=byte_limit, transfer_slots=transfer_slots
        )

    async def presence_of(self, endpoint: str, nonce_bytes: bytes) -> bytes:
        """Return a daemon's answer to a nonce, unverified. Raise BlobError on failure."""
        presence_path = PRESENCE_PATH.format(nonce=nonce_bytes.hex())
        return await self._request("GET", endpoint, presence_path, None, byte_limit=PRESENCE_BYTES)

    async def _try_stores(
        self,
        attempt_work: Callable[[str], Awaitable[T]],
        endpoints: Iterable[str],
        refusals: _Refusals,
        *,
        wanted_count: int,
        seconds: float,
    ) -> list[T]:
        """Return the first `wanted_count` results of `attempt_work`, side by side. Recently slow stores come last."""
        clock_time = asyncio.get_running_loop().time

        async def attempt(endpoint: str) -> T | None:
            began_at = clock_time()
            try:
                attempt_result = await attempt_work(endpoint)
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
            return attempt_result

        endpoint_attempts = [partial(attempt, endpoint) for endpoint in self._slow_stores.last(endpoints, clock_time())]
        return await side_by_side(
            endpoint_attempts, wanted_count=wanted_count, patience_seconds=PATIENCE_SECONDS, deadline_seconds=seconds
        )

    async def _request(
        self, http_method: str, endpoint: str, url_path: str,
        body_bytes: bytes | None, grace_seconds: float | None = None,
        byte_limit: int = BLOB_BYTES_MAX, transfer_slots: asyncio.Semaphore | None = None,
    ) -> bytes:  # fmt: skip
        """Return the body of a good answer. Raise `BlobError` for every other end."""
        if self._session is None:
            raise RuntimeError("use `async with BlobClient()`")
        # An upload gets more time in proportion to its length, since the answer follows only after all of it.
        event_loop, timeout_seconds = (
            asyncio.get_running_loop(),
            (grace_seconds or GRACE_SECONDS) + len(body_bytes or b"") / BYTES_PER_SECOND_MIN,
        )
        try:
            url = reachable_endpoint(endpoint, is_private_allowed=self._is_private).url + url_path
            async with (
                self._transfer_slot(endpoint, transfer_slots or self._transfer_slots),
                asyncio.timeout(timeout_seconds) as time_limit,
            ):
                body_stream, began_at = None if body_bytes is None else BytesIO(body_bytes), event_loop.time()
                async with self._session.request(
                    http_method, url, data=body_stream, allow_redirects=False
                ) as http_answer:
                    if http_answer.status not in (200, 201):
                        error_text = (
                            (await http_answer.content.read(ERROR_TEXT_BYTES_MAX)).decode(errors="replace").strip()
                        )
                        refusal_text = f"answered {http_answer.status} {harmless(error_text)}".strip()
                        is_missing = http_answer.status == HTTPStatus.NOT_FOUND
                        raise BlobError(refusal_text, code="not_stored" if is_missing else "store_refused")
                    answer_body = await _read_limited(http_answer, time_limit, event_loop.time(), byte_limit)
                    self.rates.note(
                        event_loop.time() - began_at, sent=len(body_bytes or b""), received=len(answer_body)
                    )
                    return answer_body
        except TimeoutError:
            self._slow_stores.note_slow(endpoint, event_loop.time())
            raise BlobError("was too slow", code="store_slow") from None
        except (aiohttp.ClientError, ValueError, OSError) as connection_error:
            raise BlobError(
                f"cannot be reached ({_in_words(connection_error)})", code="store_unreachable"
            ) from connection_error

    @contextlib.asynccontextmanager
    async def _transfer_slot(self, endpoint: str, transfer_slots: asyncio.Semaphore) -> AsyncIterator[None]:
        """Take a part of the transfers at once. A slow store can hold up a few of them, never all."""
        store_slots = self._slots_of.get(endpoint)
        if store_slots is None:
            store_slots = self._slots_of[endpoint] = asyncio.Semaphore(TRANSFERS_OF_STORE_MAX)
        # The store's own slots first: waiting for a slow store must not hold a slot of all.
        async with store_slots, transfer_slots:
            yield


def _in_words(connection_error: Exception) -> str:
    """Return the reason why a store cannot be reached, without the tuples and classes of Python's errors."""
    root_cause = (
        connection_error.os_error if isinstance(connection_error, aiohttp.ClientConnectorError) else connection_error
    )
    if isinstance(root_cause, OSError) and root_cause.strerror:
        return harmless(root_cause.strerror)
    if isinstance(root_cause, aiohttp.ClientError):
        return "the connection broke off"
    return harmless(str(root_cause)) or "no connection"


async def _read_limited(
    http_answer: aiohttp.ClientResponse, time_limit: asyncio.Timeout, began_at: float, byte_limit: int
) -> bytes:
    """Return the whole body, at most `byte_limit` bytes. Each part extends the time limit."""
    body_parts, received_bytes = [], 0
    async for body_part in http_answer.content.iter_chunked(PART_BYTES):
        received_bytes += len(body_part)
        # Before the part is kept, since a store can send without end.
        if received_bytes > byte_limit:
            raise BlobError(f"sent more than {byte_limit:,} bytes", code="answer_too_long")
        body_parts.append(body_part)
        time_limit.reschedule(began_at + GRACE_SECONDS + received_bytes / BYTES_PER_SECOND_MIN)
    return b"".join(body_parts)
