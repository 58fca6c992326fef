"""Names to addresses, in threads of their own: who answers for a stranger's name may take its time.

Always: a lookup takes no thread that anything else waits for, and none that a program has to wait for at its end; so
many are under way at most.
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
    """Asks the system, as aiohttp's own does with threads that everything else uses too."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._room = threading.BoundedSemaphore(LOOKUPS_MAX)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name; OSError where it has none, or too many others are looked up."""
        if not self._room.acquire(blocking=False):
            raise OSError(f"{LOOKUPS_MAX} other names are looked up and not answered for")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Any]] = loop.create_future()
        threading.Thread(target=self._look_up, args=(loop, found, host, port, family), daemon=True).start()
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol,
                          flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
            for kind, _, protocol, _, address in await found
            if "%" not in str(address[0])  # an address of one link is nobody's on the network
        ]  # fmt: skip

    async def close(self) -> None:
        """Who still looks is waited for by nobody."""

    def _look_up(
        self,
        loop: asyncio.AbstractEventLoop,
        found: asyncio.Future[list[Any]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        answer: list[Any] | None = None
        problem: Exception | None = None
        try:
            answer = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except (OSError, ValueError) as error:  # a label that is none is a UnicodeError
            problem = OSError(str(error)) if isinstance(error, ValueError) else error
        finally:
            self._room.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_say, found, answer, problem)


def _say(found: asyncio.Future[list[Any]], answer: list[Any] | None, problem: Exception | None) -> None:
    if found.done():  # nobody waits any more
        return
    if problem is not None:
        found.set_exception(problem)
    else:
        found.set_result(answer or [])
