"""Images brought to the engine: pulled by digest or loaded from a checked archive, looked at, or sent away again."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import docker

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor
from gpu_tasks.provider.execution.containers.image_archive import CheckedArchive, check_archive
from gpu_tasks.provider.execution.containers.image_book import ImageBook
from gpu_tasks.provider.execution.containers.image_keeping import ImageKeeping
from gpu_tasks.provider.execution.containers.image_rules import (
    check_allowed,
    check_config,
    check_platform,
    check_size,
    check_start,
    refused,
)
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy, ImageArchive, ImageByDigest

PULL_SECONDS = 1_800.0
BROUGHT_AT_ONCE_MAX = 4
"""Each may take as much of the disk as one image may."""


class Images:
    """The images of one engine, as the policy lets strangers use them."""

    def __init__(self, door: DockerDoor, policy: ContainerPolicy, machine: str, book: ImageBook | None = None) -> None:
        """`machine` is the engine's architecture, as it names it; what is brought for tasks stands in the book."""
        self._door = door
        self._policy = policy
        self._machine = machine
        self._bringing = asyncio.Semaphore(BROUGHT_AT_ONCE_MAX)
        self.keeping = ImageKeeping(door, policy, book or ImageBook(None))

    async def ready(
        self, image: ImageByDigest | ImageArchive, size_max: int, *, has_command: bool = True, used_by: str = ""
    ) -> str:
        """The id of an image that may be run, and starts; ContainerRefusedError, ContainerError, OSError.

        It stays as long as the container that uses it is not let go of.
        """
        check_allowed(image, self._policy)
        # Two at once would bring one image twice; another image does not wait.
        async with self.keeping.turn(image.sha256):
            found = await self._find(image)
            if found is None:
                async with self._bringing:
                    image_id = await self._brought(image, size_max, has_command)
            else:
                image_id = self._checked(image, found, size_max, has_command)
            if used_by:
                self.keeping.hold(reference_of(image), used_by)
        await self.keeping.tidy()
        return image_id

    async def _brought(self, image: ImageByDigest | ImageArchive, size_max: int, has_command: bool) -> str:
        """Bring it, within what is left of the room: written down before."""
        reference, found = reference_of(image), None
        most = min(size_max, await self.keeping.begin(reference, _size_known(image)))
        try:
            found = await self._bring(image, most)
        finally:
            self.keeping.end(reference, found)
        try:
            return self._checked(image, found, most, has_command)
        except ContainerRefusedError:
            await self.keeping.send_away(reference)
            raise

    async def has(self, image: ImageByDigest | ImageArchive) -> bool:
        """Whether it need not be brought; ContainerError."""
        return await self._find(image) is not None

    async def _find(self, image: ImageByDigest | ImageArchive) -> dict[str, Any] | None:
        return await self.keeping.inspected(reference_of(image))

    async def _bring(self, image: ImageByDigest | ImageArchive, size_max: int) -> dict[str, Any]:
        if isinstance(image, ImageByDigest):
            reference = image.reference
            try:
                async with asyncio.timeout(PULL_SECONDS):
                    await self._door.wait("pull an image", lambda client: _pull(client, reference, size_max))
            except TimeoutError:
                raise ContainerError("pull an image", f"not here after {PULL_SECONDS:.0f} s", "try later") from None
        else:
            await self._door.wait("load an image", lambda client: self._load(client, image, size_max))
        found = await self._find(image)
        if found is None:
            raise ContainerError("use an image", "the engine has it under another id", "see `ogpu-provider doctor`")
        return found

    def _load(self, client: docker.APIClient, image: ImageArchive, size_max: int) -> None:
        with _opened(image.content) as content:
            checked = check_archive(content, image.sha256, size_max, self._machine)
            load(client, checked)

    def _checked(
        self, image: ImageByDigest | ImageArchive, found: Mapping[str, Any], size_max: int, has_command: bool
    ) -> str:
        check_platform(found.get("Os"), found.get("Architecture"), self._machine)
        check_config(found.get("Config") or {})
        check_start(found.get("Config") or {}, has_command=has_command)
        check_size(int(found.get("Size") or 0), size_max)
        if isinstance(image, ImageByDigest) and image.reference not in (found.get("RepoDigests") or []):
            raise refused(f"the engine does not know it as {image.reference}", "pull it again")
        return str(found["Id"])


def reference_of(image: ImageByDigest | ImageArchive) -> str:
    """As an engine knows it."""
    return image.reference if isinstance(image, ImageByDigest) else f"sha256:{image.sha256}"


def _size_known(image: ImageByDigest | ImageArchive) -> int:
    """What an image will take, where that is known before it is there."""
    if isinstance(image, ImageByDigest):
        return 0
    try:
        return len(image.content) if isinstance(image.content, bytes) else image.content.stat().st_size
    except OSError:
        return 0


def load(client: docker.APIClient, archive: CheckedArchive) -> None:
    """Give the engine a checked archive; ContainerError where it says no."""
    for message in client.load_image(archive.pieces()):
        if "error" in message:
            raise ContainerError("load an image", str(message["error"])[:300], "save it again")


def _pull(client: docker.APIClient, reference: str, size_max: int) -> None:
    """Stop as soon as more is announced than the limit: the engine ends a pull that nobody reads."""
    announced: dict[str, int] = {}
    messages = client.pull(reference, stream=True, decode=True, auth_config={})
    try:
        check_progress(messages, announced, size_max)
    finally:
        getattr(messages, "close", lambda: None)()


def check_progress(messages: Iterable[Mapping[str, Any]], announced: dict[str, int], size_max: int) -> None:
    """Read what an engine says of a pull; ContainerError, ContainerRefusedError for one that is too large."""
    for message in messages:
        if "error" in message:
            raise ContainerError("pull an image", str(message["error"])[:300], "name repository and digest")
        detail = message.get("progressDetail") or {}
        if message.get("status") in {"Downloading", "Extracting"}:
            announced[str(message.get("id"))] = int(detail.get("total") or detail.get("current") or 0)
            check_size(sum(announced.values()), size_max)


def _opened(content: bytes | Path) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise ContainerError("read an archive", str(error), "fetch it again") from None
