"""Names to addresses, in separate threads, since the name server of an untrusted name may be slow.

Invariant: a look-up uses no thread of a shared pool, and none that delays the end of the program. Their number is
bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

LOOKUPS_MAX = 64


class NameResolver(AbstractResolver):
    """A resolver that asks the system, as aiohttp's own does, but outside of the shared thread pool."""

    def __init__(self) -> None:
        """Start without a look-up."""
        self._free_lookups = threading.BoundedSemaphore(LOOKUPS_MAX)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raise OSError if it has none, or during too many other look-ups."""
        # Refused instead of queued: slow name servers could fill any queue.
        if not self._free_lookups.acquire(blocking=False):
            raise OSError(f"{LOOKUPS_MAX} other lookups of names are pending")
        event_loop = asyncio.get_running_loop()
        future_answer: asyncio.Future[list[Any]] = event_loop.create_future()
        threading.Thread(
            target=self._look_up, args=(event_loop, future_answer, host, port, family), daemon=True
        ).start()
        return [
            ResolveResult(hostname=host, host=str(socket_address[0]), port=port, family=address_family, proto=protocol,
                          flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
            for address_family, _, protocol, _, socket_address in await future_answer
            if "%" not in str(socket_address[0])  # A link-local address has no meaning on the network
        ]  # fmt: skip

    async def close(self) -> None:
        """Return at once. No caller waits for unfinished look-ups."""

    def _look_up(
        self,
        event_loop: asyncio.AbstractEventLoop,
        future_answer: asyncio.Future[list[Any]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        found_addresses: list[Any] | None = None
        lookup_problem: Exception | None = None
        try:
            found_addresses = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except (OSError, ValueError) as lookup_error:  # An invalid label is a UnicodeError
            lookup_problem = OSError(str(lookup_error)) if isinstance(lookup_error, ValueError) else lookup_error
        finally:
            self._free_lookups.release()
        with contextlib.suppress(RuntimeError):  # The loop has ended
            event_loop.call_soon_threadsafe(_set_answer, future_answer, found_addresses, lookup_problem)


def _set_answer(
    future_answer: asyncio.Future[list[Any]], found_addresses: list[Any] | None, lookup_problem: Exception | None
) -> None:
    if future_answer.done():  # The caller was cancelled
        return
    if lookup_problem is not None:
        future_answer.set_exception(lookup_problem)
    else:
        future_answer.set_result(found_addresses or [])
