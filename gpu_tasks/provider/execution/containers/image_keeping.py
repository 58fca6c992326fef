"""How long images stay that were brought for tasks.

Always: one goes when its room is wanted or nobody used it for long, unless a program is ready or runs with it; what was
there before a task asked for it, or has got a name since, is the operator's and stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor, GoneError
from gpu_tasks.provider.execution.containers.image_book import BroughtImage, ImageBook
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy

FORGOTTEN_SECONDS = 3_600.0
"""What was to be brought and is not there after so long never comes: engines end pulls that nobody waits for."""
DIGEST_DIGITS = 64


class ImageKeeping:
    """The images that one engine has for tasks."""

    def __init__(self, door: DockerDoor, policy: ContainerPolicy, book: ImageBook) -> None:
        """Nothing is removed before `settle` or `tidy`."""
        self._door = door
        self._bytes_max = policy.image_disk_bytes
        self._age_seconds = policy.image_age_seconds
        self._book = book
        self._turns: dict[str, asyncio.Lock] = {}
        self._used_by: dict[str, str] = {}
        self._coming: set[str] = set()

    def turn(self, reference: str) -> asyncio.Lock:
        """Who brings, finds or removes an image waits for nobody but those who do so with the same."""
        return self._turns.setdefault(reference[-DIGEST_DIGITS:], asyncio.Lock())

    def hold(self, reference: str, used_by: str) -> None:
        """A container is ready with an image, or runs."""
        self._used_by[used_by] = reference
        self._touch(reference)

    def release(self, used_by: str) -> None:
        """It needs it no more."""
        reference = self._used_by.pop(used_by, None)
        if reference is not None:
            self._touch(reference)

    async def begin(self, reference: str, size: int) -> int:
        """An image, of this size where it is known, is about to be brought: how large it may be.

        ContainerError where there is no room, OSError.
        """
        taken = self._book.bytes_of(set(self._used_by.values()))
        if taken + size >= self._bytes_max:
            text = f"those of programs that run or are bid for take {taken} of {self._bytes_max} bytes"
            raise ContainerError("bring an image", text, "raise `image_disk` of the policy")
        await self.tidy(size)
        self._book.note(BroughtImage(reference, 0, time.time()))
        self._coming.add(reference)
        return self._bytes_max - taken

    def end(self, reference: str, found: Mapping[str, Any] | None) -> None:
        """It is there, or nothing came of it so far. OSError."""
        self._coming.discard(reference)
        if found is not None:
            self._book.note(BroughtImage(reference, _size_of(found), time.time()))

    async def tidy(self, room: int = 0) -> None:
        """Remove what nobody used for long, and the longest unused as far as their room, or more, is wanted."""
        await self._look_at_late_ones()
        now, held = time.time(), set(self._used_by.values())
        total = self._book.bytes_of(self._book.images)
        unused = [image for name, image in self._book.images.items() if name not in held and image.bytes]
        for image in sorted(unused, key=lambda image: image.used_at):
            is_old = self._age_seconds and now - image.used_at > self._age_seconds
            turn = self.turn(image.reference)
            if turn.locked() or not (is_old or total + room > self._bytes_max):
                continue
            async with turn:
                if image.reference not in self._used_by.values():
                    await self.send_away(image.reference)
            total -= image.bytes

    async def settle(self) -> None:
        """At the start: what an operator has removed since is forgotten."""
        for reference in list(self._book.images):
            if await self.inspected(reference) is None:
                self._forget(reference)
        await self.tidy()

    async def send_away(self, reference: str) -> None:
        """Remove what was brought, unless somebody has named it since; what a container has is tried later."""
        try:
            found = await self.inspected(reference)
            if found is not None and not is_named(found, reference):
                await self._door.call("remove an image", lambda client: client.remove_image(reference))
        except GoneError:
            pass
        except ContainerError:  # a container of another daemon has it, or one that is being removed
            self._touch(reference)
            return
        self._forget(reference)

    async def inspected(self, reference: str) -> dict[str, Any] | None:
        """What the engine says of an image; None if it has none. ContainerError."""
        with contextlib.suppress(GoneError):
            return await self._door.call("look for an image", lambda client: client.inspect_image(reference))
        return None

    async def _look_at_late_ones(self) -> None:
        """What came after nobody waited for it any more counts too."""
        for image in list(self._book.images.values()):
            if image.bytes or image.reference in self._coming:
                continue
            found = await self.inspected(image.reference)
            if found is not None:
                self.end(image.reference, found)
            elif time.time() - image.used_at > FORGOTTEN_SECONDS:
                self._forget(image.reference)

    def _touch(self, reference: str) -> None:
        image = self._book.images.get(reference)
        if image is not None:
            with contextlib.suppress(OSError):  # it is known as long as this daemon runs
                self._book.note(replace(image, used_at=time.time()))

    def _forget(self, reference: str) -> None:
        with contextlib.suppress(OSError):  # the next daemon finds it gone
            self._book.forget(reference)


def is_named(found: Mapping[str, Any], reference: str) -> bool:
    """Whether an image that was brought as `reference` has another name by now, and so is somebody's."""
    return bool(found.get("RepoTags")) or any(name != reference for name in found.get("RepoDigests") or [])


def _size_of(found: Mapping[str, Any]) -> int:
    return max(1, int(found.get("Size") or 0))
