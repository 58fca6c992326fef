"""Images in the engine: pulled by digest or loaded from a checked archive, inspected, and removed.

Invariants:

* An image is removed if its space is needed or it was unused for long, unless a program is ready or runs with it.
* An image that existed before a task needed it, or got a name since, belongs to the operator and stays.
* A book on the disk names an image before it is fetched. A damaged book counts as empty, and the images in it are never
  removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import docker

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor, GoneError
from gpu_tasks.provider.execution.containers.image_archive import CheckedArchive, check_archive
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
from wallet.private_file import replace as replace_file

PULL_SECONDS = 1_800.0
BROUGHT_AT_ONCE_MAX = 4
"""Images fetched at once. Each may take as much disk as one image may."""
FORGOTTEN_SECONDS = 3_600.0
"""The time after which a missing image is given up. An engine ends a pull that has no reader."""
DIGEST_DIGITS = 64
BOOK_FILE = "images.json"
BOOK_BYTES_MAX = 4 << 20
IMAGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class BroughtImage:
    """An image that was fetched for a task."""

    reference: str
    """The engine's name for it: repository and digest, or the id of an archive."""
    bytes: int
    """The engine's size; 0 while the image is being fetched."""
    used_at: float
    """The last time that a program with it was prepared, started or ended, in seconds since the epoch."""


class ImageBook:
    """The book of one engine. Without a path it is not stored."""

    def __init__(self, path: Path | None) -> None:
        """Read the book. Raise OSError if the folder is unreadable."""
        self._path = path
        self.images: dict[str, BroughtImage] = {} if path is None else read_book(path)

    def note(self, image: BroughtImage) -> None:
        """Note the present state of an image. Raise OSError on failure."""
        self.images[image.reference] = image
        self._save()

    def forget(self, reference: str) -> None:
        """Delete an image that is gone or has another owner. Raise OSError on failure."""
        if self.images.pop(reference, None) is not None:
            self._save()

    def bytes_of(self, references: Collection[str]) -> int:
        """Return the total size of some images. A shared layer counts for each image."""
        return sum(image.bytes for reference, image in self.images.items() if reference in references)

    def _save(self) -> None:
        if self._path is not None:
            replace_file(self._path, json.dumps([asdict(image) for image in self.images.values()]).encode())


def read_book(path: Path) -> dict[str, BroughtImage]:
    """Return the images of a book; none if the book is damaged or missing."""
    with contextlib.suppress(FileNotFoundError, LookupError, ArithmeticError, ValueError, TypeError, RecursionError):
        with path.open("rb") as book_file:
            book_content = json.loads(book_file.read(BOOK_BYTES_MAX))
        # Read with explicit types: a damaged book then raises an error and counts as empty.
        brought_images = [
            BroughtImage(str(image_record["reference"]), int(image_record["bytes"]), float(image_record["used_at"]))
            for image_record in book_content
        ]
        return {image.reference: image for image in brought_images[:IMAGES_MAX]}
    return {}


def told(brought_images: Collection[BroughtImage], bytes_max: int, age_seconds: int, current_time: float) -> str:
    """Return a sentence about used and available space."""
    total_bytes = sum(image.bytes for image in brought_images)
    unused_seconds = max((current_time - image.used_at for image in brought_images), default=0.0)
    age_text = (
        f"; unused ones are removed after {age_seconds / 86400:.1f} days" if age_seconds else "; unused ones are kept"
    )
    oldest_text = f", one unused for {max(0.0, unused_seconds) / 86_400:.1f} days" if brought_images else ""
    total_text = f"{total_bytes / (1 << 30):.2f} of {bytes_max / (1 << 30):.2f} GiB"
    return f"{len(brought_images)} fetched for tasks, {total_text}{oldest_text}{age_text}"


class ImageKeeping:
    """The images of one engine that were fetched for tasks."""

    def __init__(self, door: DockerDoor, policy: ContainerPolicy, book: ImageBook) -> None:
        """Nothing is removed before `settle` or `tidy`."""
        self._door = door
        self._bytes_max = policy.image_disk_bytes
        self._age_seconds = policy.image_age_seconds
        self._image_book = book
        self._turn_by_image: dict[str, asyncio.Lock] = {}
        self._image_by_user: dict[str, str] = {}
        self._coming_references: set[str] = set()

    def turn(self, reference: str) -> asyncio.Lock:
        """Return the lock of one image. Fetching, searching and removing it exclude each other."""
        return self._turn_by_image.setdefault(reference[-DIGEST_DIGITS:], asyncio.Lock())

    def hold(self, reference: str, user_name: str) -> None:
        """Mark an image as used by a prepared or running container."""
        self._image_by_user[user_name] = reference
        self._note_use(reference)

    def release(self, user_name: str) -> None:
        """End a container's use of its image."""
        reference = self._image_by_user.pop(user_name, None)
        if reference is not None:
            self._note_use(reference)

    async def begin(self, reference: str, image_bytes: int) -> int:
        """Note that an image will be fetched, and return its maximum size. `image_bytes` is its size if known.

        Raise ContainerError if there is no space, or OSError.
        """
        bytes_in_use = self._image_book.bytes_of(set(self._image_by_user.values()))
        # Images in use cannot be removed, so no space would become free for this one.
        if bytes_in_use + image_bytes >= self._bytes_max:
            refusal_text = f"images of running programs and of bids take {bytes_in_use} of {self._bytes_max} bytes"
            raise ContainerError(
                "fetch an image", refusal_text, "raise `image_disk` in the policy", code="image_disk_full"
            )
        await self.tidy(image_bytes)
        self._image_book.note(BroughtImage(reference, 0, time.time()))
        self._coming_references.add(reference)
        return self._bytes_max - bytes_in_use

    def end(self, reference: str, inspected: Mapping[str, Any] | None) -> None:
        """Note the result of fetching an image. Raise OSError on failure."""
        self._coming_references.discard(reference)
        if inspected is not None:
            self._image_book.note(BroughtImage(reference, _size_of(inspected), time.time()))

    async def tidy(self, bytes_needed: int = 0) -> None:
        """Remove images unused for long, and then the longest unused until `bytes_needed` more bytes fit."""
        await self._look_at_late_ones()
        current_time, images_in_use = time.time(), set(self._image_by_user.values())
        total_bytes = self._image_book.bytes_of(self._image_book.images)
        unused_images = [
            image
            for reference, image in self._image_book.images.items()
            if reference not in images_in_use and image.bytes
        ]
        for image in sorted(unused_images, key=lambda image: image.used_at):
            is_expired = self._age_seconds and current_time - image.used_at > self._age_seconds
            image_turn = self.turn(image.reference)
            # A locked image is in use at this moment.
            if image_turn.locked() or not (is_expired or total_bytes + bytes_needed > self._bytes_max):
                continue
            async with image_turn:
                # A container may have taken the image while this waited for the lock.
                if image.reference not in self._image_by_user.values():
                    await self.send_away(image.reference)
            total_bytes -= image.bytes

    async def settle(self) -> None:
        """Forget images that the operator removed before this start.

        An image that a killed daemon was fetching may still arrive. `tidy` handles it.
        """
        for image in list(self._image_book.images.values()):
            if image.bytes and await self.inspected(image.reference) is None:
                self._forget(image.reference)
        await self.tidy()

    async def send_away(self, reference: str) -> None:
        """Remove a fetched image unless it got a name. An image in use is tried again later."""
        try:
            inspected = await self.inspected(reference)
            if inspected is not None and not is_named(inspected, reference):
                await self._door.call("remove an image", lambda client: client.remove_image(reference))
        except GoneError:
            pass
        except ContainerError:  # another daemon's container uses it, or one that is being removed
            self._note_use(reference)
            return
        self._forget(reference)

    async def inspected(self, reference: str) -> dict[str, Any] | None:
        """Return the engine's data about an image, or None if it has none. Raise ContainerError on failure."""
        with contextlib.suppress(GoneError):
            return await self._door.call("look for an image", lambda client: client.inspect_image(reference))
        return None

    async def _look_at_late_ones(self) -> None:
        """Count images that arrived after their fetch was given up."""
        for image in list(self._image_book.images.values()):
            if image.bytes or image.reference in self._coming_references:
                continue
            inspected = await self.inspected(image.reference)
            if inspected is not None:
                self.end(image.reference, inspected)
            elif time.time() - image.used_at > FORGOTTEN_SECONDS:
                self._forget(image.reference)

    def _note_use(self, reference: str) -> None:
        image = self._image_book.images.get(reference)
        if image is not None:
            with contextlib.suppress(OSError):  # the memory still has it until this daemon ends
                self._image_book.note(replace(image, used_at=time.time()))

    def _forget(self, reference: str) -> None:
        with contextlib.suppress(OSError):  # the next daemon finds that the image is gone
            self._image_book.forget(reference)


def is_named(inspected: Mapping[str, Any], reference: str) -> bool:
    """Return True if an image fetched as `reference` has another name, and so another owner."""
    return bool(inspected.get("RepoTags")) or any(
        repository_digest != reference for repository_digest in inspected.get("RepoDigests") or []
    )


def _size_of(inspected: Mapping[str, Any]) -> int:
    return max(1, int(inspected.get("Size") or 0))


class Images:
    """The images of one engine, used within the policy."""

    def __init__(
        self, door: DockerDoor, policy: ContainerPolicy, machine_name: str, book: ImageBook | None = None
    ) -> None:
        """`machine_name` is the engine's name of its architecture. `book` lists the images fetched for tasks."""
        self._door = door
        self._policy = policy
        self._machine = machine_name
        self._bringing = asyncio.Semaphore(BROUGHT_AT_ONCE_MAX)
        self.keeping = ImageKeeping(door, policy, book or ImageBook(None))

    async def ready(
        self, image: ImageByDigest | ImageArchive, size_max: int, *, has_command: bool = True, user_name: str = ""
    ) -> str:
        """Return the id of an image that may run and can start, fetching it if necessary.

        Raise ContainerRefusedError, ContainerError or OSError. The image stays until its container is released.
        """
        check_allowed(image, self._policy)
        # The lock prevents two fetches of one image. Other images do not wait.
        async with self.keeping.turn(image.sha256):
            inspected = await self._find(image)
            if inspected is None:
                async with self._bringing:
                    image_id = await self._bring_in_turn(image, size_max, has_command)
            else:
                image_id = self._check_brought(image, inspected, size_max, has_command)
            if user_name:
                self.keeping.hold(reference_of(image), user_name)
        await self.keeping.tidy()
        return image_id

    async def _bring_in_turn(self, image: ImageByDigest | ImageArchive, size_max: int, has_command: bool) -> str:
        """Fetch an image within the remaining space. The book names it first."""
        reference, inspected = reference_of(image), None
        bytes_allowed = min(size_max, await self.keeping.begin(reference, _size_known(image)))
        try:
            inspected = await self._bring(image, bytes_allowed)
        finally:
            self.keeping.end(reference, inspected)
        try:
            return self._check_brought(image, inspected, bytes_allowed, has_command)
        except ContainerRefusedError:
            await self.keeping.send_away(reference)
            raise

    async def has(self, image: ImageByDigest | ImageArchive) -> bool:
        """Return True if the image need not be fetched. Raise ContainerError on failure."""
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
                raise ContainerError(
                    "pull an image", f"unfinished after {PULL_SECONDS:.0f} s", "try later", code="image_too_slow"
                ) from None
        else:
            await self._door.wait("load an image", lambda client: self._load(client, image, size_max))
        inspected = await self._find(image)
        if inspected is None:
            raise ContainerError(
                "use an image",
                "the engine lists it under another id",
                "see `ogpu-provider doctor`",
                code="other_inspected_image",
            )
        return inspected

    def _load(self, client: docker.APIClient, image: ImageArchive, size_max: int) -> None:
        with _opened(image.content) as content:
            checked_archive = check_archive(content, image.sha256, size_max, self._machine)
            load(client, checked_archive)

    def _check_brought(
        self, image: ImageByDigest | ImageArchive, inspected: Mapping[str, Any], size_max: int, has_command: bool
    ) -> str:
        # After the fetch too: a registry's image was never checked, and an archive's check covers only our copy.
        check_platform(inspected.get("Os"), inspected.get("Architecture"), self._machine)
        check_config(inspected.get("Config") or {})
        check_start(inspected.get("Config") or {}, has_command=has_command)
        check_size(int(inspected.get("Size") or 0), size_max)
        if isinstance(image, ImageByDigest) and image.reference not in (inspected.get("RepoDigests") or []):
            raise refused(f"the engine has no {image.reference}", "pull it again", code="not_in_engine")
        return str(inspected["Id"])


def reference_of(image: ImageByDigest | ImageArchive) -> str:
    """Return the engine's name of an image."""
    return image.reference if isinstance(image, ImageByDigest) else f"sha256:{image.sha256}"


def _size_known(image: ImageByDigest | ImageArchive) -> int:
    """Return the size of an image if it is known in advance, else 0."""
    if isinstance(image, ImageByDigest):
        return 0
    try:
        return len(image.content) if isinstance(image.content, bytes) else image.content.stat().st_size
    except OSError:
        return 0


def load(client: docker.APIClient, checked_archive: CheckedArchive) -> None:
    """Load a checked archive into the engine. Raise ContainerError if the engine refuses."""
    for progress_message in client.load_image(checked_archive.pieces()):
        if "error" in progress_message:
            raise ContainerError(
                "load an image", str(progress_message["error"])[:300], "save it again", code="engine_refused"
            )


def _pull(client: docker.APIClient, reference: str, size_max: int) -> None:
    """Pull an image, and stop if the announced size exceeds the limit. The engine ends a pull without a reader."""
    announced: dict[str, int] = {}
    messages = client.pull(reference, stream=True, decode=True, auth_config={})
    try:
        check_progress(messages, announced, size_max)
    finally:
        getattr(messages, "close", lambda: None)()


def check_progress(progress_messages: Iterable[Mapping[str, Any]], announced: dict[str, int], size_max: int) -> None:
    """Read the engine's messages about a pull. Raise ContainerError, or ContainerRefusedError if it is too large."""
    for progress_message in progress_messages:
        if "error" in progress_message:
            raise ContainerError(
                "pull an image",
                str(progress_message["error"])[:300],
                "give its repository and digest",
                code="engine_refused",
            )
        progress_detail = progress_message.get("progressDetail") or {}
        if progress_message.get("status") in {"Downloading", "Extracting"}:
            announced[str(progress_message.get("id"))] = int(
                progress_detail.get("total") or progress_detail.get("current") or 0
            )
            check_size(sum(announced.values()), size_max)


def _opened(content: bytes | Path) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    try:
        return content.open("rb")
    except OSError as error:
        raise ContainerError("read an archive", str(error), "fetch it again", code="archive_unreadable") from None
