"""The engine's API for an event loop: calls of the `docker` library in threads, with our errors.

Invariant: every call that begins is awaited to its end, even after cancellation. Otherwise a later search could miss a
thing that the call is still making.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
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
"""The limit for one call. Pulls and loads are read in pieces, each within this time."""
THREADS = 16
T = TypeVar("T")


class GoneError(ContainerError):
    """The engine does not have the requested thing."""


class DockerDoor:
    """A connection to one engine. Create it with `open_door` and `close` it."""

    def __init__(self, client: docker.APIClient, socket_path: str) -> None:
        """`client` talks to the socket."""
        self._client = client
        self.socket_path = socket_path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="containers")

    async def call(self, what: str, work: Callable[[docker.APIClient], T]) -> T:
        """Return the result of `work`. Raise ContainerError or GoneError, with the intention `what` in the text."""
        work_future = asyncio.get_running_loop().run_in_executor(self._threads, self._run, what, work)
        try:
            return await asyncio.shield(work_future)
        except asyncio.CancelledError:
            await asyncio.wait([work_future])
            if not work_future.cancelled():
                work_future.exception()  # mark the error as retrieved
            raise

    async def wait(self, action_text: str, work: Callable[[docker.APIClient], T]) -> T:
        """Do long work like `call`, in a separate daemon thread: the process can end before the work does."""
        event_loop = asyncio.get_running_loop()
        result_future: asyncio.Future[T] = event_loop.create_future()

        def tell(work_result: T | None, error: BaseException | None) -> None:
            # The caller may have been cancelled meanwhile.
            if result_future.done():
                return
            if error is not None:
                result_future.set_exception(error)
            else:
                result_future.set_result(cast("T", work_result))

        def run() -> None:
            result, failure = None, None
            try:
                result = self._run(action_text, work)
            except BaseException as error:  # noqa: BLE001 # raised at the caller, which awaits the result
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits
                event_loop.call_soon_threadsafe(tell, result, failure)

        threading.Thread(target=run, name=f"containers: {action_text}", daemon=True).start()
        return await result_future

    async def remove_container(self, name: str) -> None:
        """End and remove a container and its anonymous volumes, if it exists. Raise ContainerError on failure."""
        await self._remove("a container", lambda client: client.remove_container(name, v=True, force=True))

    async def remove_network(self, name: str) -> None:
        """Remove a network if it exists. Raise ContainerError on failure."""
        await self._remove("a network", lambda client: client.remove_network(name))

    async def remove_volume(self, volume: str) -> None:
        """Remove a volume if it exists. Raise ContainerError on failure."""
        await self._remove("a volume", lambda client: client.remove_volume(volume))

    async def _remove(self, action_text: str, work: Callable[[docker.APIClient], None]) -> None:
        with contextlib.suppress(GoneError):
            await self.call(f"remove {action_text}", work)

    async def close(self) -> None:
        """Close the connection. Calls in progress end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _run(self, action_text: str, work: Callable[[docker.APIClient], T]) -> T:
        try:
            return work(self._client)
        except NotFound as error:
            raise GoneError(action_text, _engine_message(error), code="not_in_engine") from None
        except APIError as error:
            raise ContainerError(action_text, _engine_message(error), code="engine_refused") from None
        except (DockerException, requests.RequestException) as error:
            raise ContainerError(
                action_text, f"{type(error).__name__}: {error}", "see `ogpu-provider doctor`", code="engine_silent"
            ) from None


async def open_door(address: str = DEFAULT_ADDRESS) -> DockerDoor:
    """Connect to the engine at a Unix socket ("unix:///path"). Raise ContainerError with the reason on failure."""
    # `streams` opens the socket by its path, so a TCP address would not work there.
    if not address.startswith("unix:///"):
        raise ContainerError(
            "reach the engine", f"{address} is not a Unix socket", "write it as unix:///path", code="not_a_socket"
        )
    path = address.removeprefix("unix://")

    def reach() -> docker.APIClient:
        # The library leaves its socket open if nobody answers, so ours asks first.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CALL_SECONDS)
            probe.connect(path)
        return docker.APIClient(base_url=address, version="auto", timeout=CALL_SECONDS)

    try:
        client = await asyncio.to_thread(reach)
    except (OSError, DockerException) as error:  # a RequestException is an OSError
        raise ContainerError(
            "reach the engine", f"no answer at {path}: {error}", "see `ogpu-provider doctor`", code="engine_silent"
        ) from None
    return DockerDoor(client, path)


def _engine_message(error: APIError) -> str:
    return str(error.explanation or error)[:500]
