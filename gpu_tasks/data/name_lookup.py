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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        threading.Thread(target=self._look_up, args=(loop, future, host, port, family), daemon=True).start()
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=address_family, proto=protocol,
                          flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
            for address_family, _, protocol, _, address in await future
            if "%" not in str(address[0])  # A link-local address has no meaning on the network
        ]  # fmt: skip

    async def close(self) -> None:
        """Return at once. No caller waits for unfinished look-ups."""

    def _look_up(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[list[Any]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        addresses: list[Any] | None = None
        problem: Exception | None = None
        try:
            addresses = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except (OSError, ValueError) as error:  # An invalid label is a UnicodeError
            problem = OSError(str(error)) if isinstance(error, ValueError) else error
        finally:
            self._free_lookups.release()
        with contextlib.suppress(RuntimeError):  # The loop has ended
            loop.call_soon_threadsafe(_set_answer, future, addresses, problem)


def _set_answer(future: asyncio.Future[list[Any]], addresses: list[Any] | None, problem: Exception | None) -> None:
    if future.done():  # The caller was cancelled
        return
    if problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(addresses or [])
