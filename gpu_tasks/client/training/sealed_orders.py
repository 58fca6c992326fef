"""From a task file to the order that is submitted: its request sealed to all who may run or judge it, and stored.

Always: as for a unit, an input is stored before its task is submitted; judges come first among the readers, for an
input that one of them cannot read counts as bad; the customer can open it too, so that nothing has to be kept but its
key.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_tasks.client.image_files import ArchiveFile
from gpu_tasks.client.posting import TASK_POSTING, PostError, PostingKind
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.api import DeviceStatus, InputReader
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.tasks.container_order import PreparedContainer
from gpu_tasks.tasks.container_request import IMAGE_PARTS_MAX, ImagePart
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.task_kinds import AskedTask
from runtime.cryptography.hashing import blake2_256
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.private_file import make_folder
from wallet.private_file import replace as replace_file

SALT_BYTES = 32
NOT_STORED = StoredInput(bytes(32), bytes(32), 0)
"""In an order that is only looked at: as long as one that is sent."""


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task that was read and prepared, and what the chain makes of it."""

    asked: AskedTask
    rules: TaskRules
    slot_ms: int

    def order(self, stored: StoredInput = NOT_STORED) -> TaskOrder:
        """What is submitted; TaskFileError where this chain would refuse it."""
        return self.asked.order(stored, self.rules, self.slot_ms)


@dataclass(frozen=True, slots=True)
class ImageUpload:
    """The archive of a task's image, and where it is written down what of it is stored."""

    image: ArchiveFile
    folder: Path
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TaskSealer:
    """Seals and stores the input of one task. Implements `InputSealer`."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    draft: TaskDraft
    image: ImageUpload | None = None

    @property
    def kind(self) -> PostingKind:
        """A task."""
        return TASK_POSTING

    async def terms(self, requests: Sequence[bytes], tell: Callable[[], None]) -> Sequence[TaskOrder]:
        """Seal the request to all who may judge or bid, and to the customer; store it; the order.

        BlobError if it could not be stored, PostError if there is nobody to seal it to.
        """
        client, orders = self.client, []
        final = await client.finalized()
        sealed_at = await client.height(final)
        providers = await market_reads.providers(client, final)
        judges = await market_reads.judging_readers(client, final)
        bidders = bidders_of(await market_reads.devices(client, final), providers, self.draft.asked.classes)
        keys = list(dict.fromkeys(keys_at([*judges, *bidders], sealed_at)))
        if not keys:
            raise PostError("nobody is registered who could run or judge the task: see `ogpu providers`")
        own = SealKey.of(self.key).public
        readers, endpoints, draft = [own, *keys[: READERS_MAX - 1]], endpoints_of(providers), self.draft
        if self.image is not None and requests:
            draft = await self._with_image(self.image, readers, endpoints)
            requests = [draft.asked.request for _ in requests]
        for request in requests:
            content = encode_input(os.urandom(SALT_BYTES), own, request)
            blob = seal(content, readers)
            address = address_of(blob)
            await self.blobs.put(blob, stores_for(address, endpoints), COPIES)
            tell()
            orders.append(draft.order(StoredInput(commitment_of(content), address, sealed_at)))
        return orders

    async def _with_image(self, upload: ImageUpload, readers: Sequence[bytes], endpoints: Sequence[str]) -> TaskDraft:
        """The draft with where the parts of its image lie, once they do; BlobError."""
        asked, identity = self.draft.asked, (self.client.genesis_hash, self.key.account)
        assert isinstance(asked, PreparedContainer), "no other task has an image"
        uploader = Uploader(self.blobs, readers, endpoints, upload.say)
        try:
            parts = await uploader.uploaded(upload.image, upload.folder, identity)
        except OSError as error:
            raise PostError(f"what of the image is stored cannot be written down: {error}") from None
        return replace(self.draft, asked=asked.with_parts(upload.image.size, parts))


def bidders_of(
    devices: Iterable[DeviceStatus], providers: dict[bytes, Provider], classes: Iterable[DeviceClass]
) -> list[InputReader]:
    """The owners of devices that suit, by ascending account: whoever of them is busy now may be free in a minute."""
    suiting = set(classes)
    owners = {status.device.owner for status in devices if status.device.kind in suiting}
    return [
        InputReader(owner, providers[owner].seal_key, providers[owner].key_since)
        for owner in sorted(owners)
        if owner in providers
    ]


# Each part of an image is sealed to who may bid or judge, and to the customer. A stored part is written down before the
# next one goes, so the same command continues behind it. The record counts for the same readers only, and for half as
# long as stores keep blobs of strangers.
AT_ONCE = 4
FRESH_SECONDS = 12 * 3_600
RECORD_BYTES_MAX = 64 * 1024


@dataclass(slots=True)
class UploadRecord:
    """Which parts are stored, and since when; a damaged one is none."""

    path: Path
    began_at: float
    parts: dict[int, ImagePart] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, identity: Sequence[bytes], now: float) -> UploadRecord:
        """As an earlier try left it; OSError where none can be written."""
        folder = folder.expanduser()
        make_folder(folder)
        path = folder / f"image-{blake2_256(b''.join(blake2_256(each) for each in identity)).hex()}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            began_at, parts = _read(path)
            if 0 <= now - began_at < FRESH_SECONDS:
                return cls(path, began_at, parts)
        return cls(path, now)

    def note(self, number: int, part: ImagePart) -> None:
        """A part is stored. OSError."""
        self.parts[number] = part
        parts = {str(each): [stored.blob.hex(), stored.root.hex()] for each, stored in sorted(self.parts.items())}
        replace_file(self.path, json.dumps({"began_at": self.began_at, "parts": parts}).encode())


@dataclass(frozen=True, slots=True)
class Uploader:
    """Stores the parts of one image for some readers."""

    blobs: BlobClient
    readers: Sequence[bytes]
    endpoints: Sequence[str]
    say: Callable[[str], None]

    async def uploaded(self, image: ArchiveFile, folder: Path, identity: Sequence[bytes]) -> list[ImagePart]:
        """All of its parts, stored now or by an earlier try; BlobError, ImageFileError, OSError."""
        parts = await asyncio.to_thread(image.parts)
        record = UploadRecord.open(folder, (*identity, image.sha256, *sorted(self.readers)), time.time())
        if record.parts and not await self._is_kept(record):
            record.parts.clear()
            record.began_at = time.time()
        missing = [number for number in range(len(parts)) if not _is_of(record.parts.get(number), parts[number])]
        if missing:
            self.say(f"the image goes into the stores: {len(missing)} of {len(parts)} parts, up to a mebibyte each")
        turn = asyncio.Semaphore(AT_ONCE)

        async def store(number: int) -> None:
            async with turn:
                blob = await asyncio.to_thread(seal, parts[number], self.readers)
                await self.blobs.put(blob, stores_for(address_of(blob), self.endpoints), COPIES)
                record.note(number, ImagePart(address_of(blob), blake2_256(parts[number])))

        try:
            async with asyncio.TaskGroup() as group:
                for number in missing:
                    group.create_task(store(number))
        except* (BlobError, OSError) as errors:
            stored = f"{len(record.parts)} of {len(parts)} parts of the image are stored, and the same command goes on"
            raise BlobError(f"{_first(errors)}. {stored}") from None
        return [record.parts[number] for number in range(len(parts))]

    async def _is_kept(self, record: UploadRecord) -> bool:
        """Whether a store still has the first part of an earlier try: those of another network have none."""
        part = record.parts[min(record.parts)]
        try:
            await self.blobs.get(part.blob, stores_for(part.blob, self.endpoints))
        except BlobError:
            return False
        return True


def _is_of(stored: ImagePart | None, part: bytes) -> bool:
    return stored is not None and stored.root == blake2_256(part)


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _read(path: Path) -> tuple[float, dict[int, ImagePart]]:
    with path.open("rb") as file:
        found = json.loads(file.read(RECORD_BYTES_MAX))
    parts = {
        int(number): ImagePart(bytes.fromhex(blob), bytes.fromhex(root))
        for number, (blob, root) in found["parts"].items()
    }
    if len(parts) > IMAGE_PARTS_MAX or any(len(part.blob) != 32 or len(part.root) != 32 for part in parts.values()):
        raise ValueError("no parts")
    return float(found["began_at"]), parts
