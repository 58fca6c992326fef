"""The engine's API, from an event loop: calls of the `docker` library in threads, its errors as ours.

Always: a call that was begun is waited for, also by who is cancelled: what it makes must be there when it is looked
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from gpu_tasks.provider.execution.containers.refusals import ContainerError

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
CALL_SECONDS = 120
"""At most, for one call; pulls and loads are read piece by piece, each within this."""
THREADS = 16
T = TypeVar("T")


class GoneError(ContainerError):
    """The engine has no such thing."""


class DockerDoor:
    """Calls to one engine. Make it with `open_door`; `close` it."""

    def __init__(self, client: docker.APIClient, socket_path: str) -> None:
        """`client` talks to the socket."""
        self._client = client
        self.socket_path = socket_path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="containers")

    async def call(self, what: str, work: Callable[[docker.APIClient], T]) -> T:
        """The result of `work`; ContainerError, GoneError, each with `what` was wanted."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._run, what, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # it was looked at
            raise

    async def wait(self, what: str, work: Callable[[docker.APIClient], T]) -> T:
        """The same for what takes long, in a thread of its own that nothing waits for when this process ends."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def tell(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast("T", result))

        def run() -> None:
            result, failure = None, None
            try:
                result = self._run(what, work)
            except BaseException as error:  # noqa: BLE001 it is raised where the result is waited for
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(tell, result, failure)

        threading.Thread(target=run, name=f"containers: {what}", daemon=True).start()
        return await future

    async def remove_container(self, name: str) -> None:
        """End and remove a container with its nameless volumes, if it is there; ContainerError."""
        await self._remove("a container", lambda client: client.remove_container(name, v=True, force=True))

    async def remove_network(self, name: str) -> None:
        """Remove a network, if it is there; ContainerError."""
        await self._remove("a network", lambda client: client.remove_network(name))

    async def remove_volume(self, name: str) -> None:
        """Remove a volume, if it is there; ContainerError."""
        await self._remove("a volume", lambda client: client.remove_volume(name))

    async def _remove(self, what: str, work: Callable[[docker.APIClient], None]) -> None:
        with contextlib.suppress(GoneError):
            await self.call(f"remove {what}", work)

    async def close(self) -> None:
        """Hang up. What is under way in threads ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _run(self, what: str, work: Callable[[docker.APIClient], T]) -> T:
        try:
            return work(self._client)
        except NotFound as error:
            raise GoneError(what, _said(error)) from None
        except APIError as error:
            raise ContainerError(what, _said(error)) from None
        except (DockerException, requests.RequestException) as error:
            raise ContainerError(what, f"{type(error).__name__}: {error}", "see `ogpu-provider doctor`") from None


async def open_door(address: str = DEFAULT_ADDRESS) -> DockerDoor:
    """Reach the engine at a Unix socket ("unix:///path"); ContainerError with the reason if there is none."""
    if not address.startswith("unix:///"):
        raise ContainerError("reach the engine", f"{address} is no Unix socket", "name it as unix:///path")
    path = address.removeprefix("unix://")

    def reach() -> docker.APIClient:
        return docker.APIClient(base_url=address, version="auto", timeout=CALL_SECONDS)

    try:
        client = await asyncio.to_thread(reach)
    except (DockerException, requests.RequestException) as error:
        raise ContainerError(
            "reach the engine", f"it does not answer at {path}: {error}", "see `ogpu-provider doctor`"
        ) from None
    return DockerDoor(client, path)


def _said(error: APIError) -> str:
    return str(error.explanation or error)[:500]
