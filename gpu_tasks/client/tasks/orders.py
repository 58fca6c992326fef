"""From a task file on the disk to its order: inputs, images, and the request, sealed and stored.

Invariants:

* Files are read up to their limits only.
* An input lies in the task file's folder or below it, after links are resolved. A stranger's task file can send none of
  the reader's other files.
* Faults that every provider would refuse are reported before anything is sent.
* The same image gives the same compressed bytes, so an interrupted upload resumes.
* An input is stored before its task is submitted, as for a unit. Validators come first among its readers, because
  an input that voters cannot read counts as missing. The customer is a reader too, so it needs to keep only its key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.input_files import read_input
from gpu_tasks.client.units.posting import TASK_POSTING, PostError, PostingKind
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX
from gpu_tasks.tasks.container_order import PreparedContainer
from gpu_tasks.tasks.container_request import IMAGE_ARCHIVE_BYTES_MAX, IMAGE_PART_BYTES, IMAGE_PARTS_MAX, ImagePart
from gpu_tasks.tasks.container_task import SavedImage
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import AskedTask, TaskSource, TrainingSource, read_any_task
from gpu_tasks.tasks.training_task import TaskFile, read_task
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from runtime.cryptography.hashing import blake2_256
from wallet.amounts import counted
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.outbox import OutboxFile, RecordError, record_name

PACKED_BYTES_MAX = IMAGE_PART_BYTES * IMAGE_PARTS_MAX
DOCUMENT_BYTES_MAX = 1 << 20
"""The limit for the manifest and the configuration."""
READ_BYTES = 1 << 20
# By zlib.h, 16 more than the window's 15 bits write gzip's header. It has no time, so equal images give equal bytes.
GZIP_WINDOW = 31
LEVEL = 6
PACKED_LAYERS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""The first bytes of layers compressed by gzip or zstd."""


class ImageFileError(WalletError):
    """No provider would run the archive. The text gives the reason and the next step."""


@dataclass(slots=True)
class ArchiveFile:
    """A checked archive."""

    path: Path
    sha256: bytes
    """The image's id."""
    size: int
    _parts: tuple[bytes, ...] = field(default=(), repr=False)

    def parts(self) -> Sequence[bytes]:
        """Return the compressed archive in parts.

        The first call takes seconds. Raise ImageFileError if it is too large.
        """
        if not self._parts:
            packed = _packed(self.path)
            begins = range(0, len(packed), IMAGE_PART_BYTES)
            self._parts = tuple(packed[begin : begin + IMAGE_PART_BYTES] for begin in begins)
        return self._parts


def look_at_image(path: Path, sha256: bytes) -> ArchiveFile:
    """Return the archive with the image of this id. Raise ImageFileError if it is invalid, or OSError."""
    file = path.stat()
    if not stat.S_ISREG(file.st_mode):
        raise ImageFileError(f"{path.name} is not a plain file. Name a `docker save` archive", code="not_a_file")
    size = file.st_size
    if size > IMAGE_ARCHIVE_BYTES_MAX:
        raise ImageFileError(
            f"{path.name} has {size >> 20} MiB, and an archive has at most {IMAGE_ARCHIVE_BYTES_MAX >> 20}. Push a "
            "larger image to a registry, and name its digest",
            code="archive_too_large",
        )
    try:
        # Mode `r:` reads no compressed tar, so a small file cannot expand beyond the checked size.
        with tarfile.open(path, "r:") as archive:
            _check(archive, path.name, sha256)
    except (tarfile.TarError, KeyError, ValueError, TypeError, RecursionError, AttributeError) as error:
        raise ImageFileError(
            f"{path.name} is not an archive of an image ({str(error)[:80]}). `docker save IMAGE -o FILE` writes one",
            code="not_an_archive",
        ) from None
    return ArchiveFile(path, sha256, size)


def _check(archive: tarfile.TarFile, name: str, sha256: bytes) -> None:
    manifest = json.loads(_document(archive, "manifest.json"))
    if len(manifest) != 1:
        raise ImageFileError(f"{name} has {len(manifest)} images. Save one", code="several_images")
    config = _document(archive, manifest[0]["Config"])
    found = hashlib.sha256(config).hexdigest()
    if found != sha256.hex():
        raise ImageFileError(
            f"{name} has the image sha256:{found}, and the file asks for sha256:{sha256.hex()}", code="other_image"
        )
    for layer in manifest[0]["Layers"]:
        if _begin(archive, layer).startswith(PACKED_LAYERS):
            raise ImageFileError(
                f"{name} has compressed layers, which no provider loads. Save it from an engine without "
                "containerd's image store",
                code="layers_compressed",
            )


def _document(archive: tarfile.TarFile, name: str) -> Any:
    opened = archive.extractfile(name)
    if opened is None or archive.getmember(name).size > DOCUMENT_BYTES_MAX:
        raise ValueError(f"{name} is none")
    return opened.read()


def _begin(archive: tarfile.TarFile, name: str) -> bytes:
    opened = archive.extractfile(name)
    return b"" if opened is None else opened.read(4)


def _packed(path: Path) -> bytes:
    packer, pieces, length = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW), [], 0
    try:
        with path.open("rb") as opened:
            while piece := opened.read(READ_BYTES):
                pieces.append(packer.compress(piece))
                length += len(pieces[-1])
                if length > PACKED_BYTES_MAX:
                    break
    except OSError as error:
        raise ImageFileError(f"{path.name} cannot be read: {error.strerror}", code="file_unreadable") from None
    pieces.append(packer.flush())
    packed = b"".join(pieces)
    if len(packed) > PACKED_BYTES_MAX:
        raise ImageFileError(
            f"{path.name} has more than {PACKED_BYTES_MAX >> 20} MiB when it is compressed. Push the image to a "
            "registry, and name its digest",
            code="archive_too_large",
        )
    return packed


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task file of any kind with its inputs."""

    source: TaskSource
    inputs: Mapping[str, bytes]
    """The inputs by their paths in the file."""
    image: ArchiveFile | None = None
    """The image, if it comes as an archive."""

    @property
    def secrets(self) -> Sequence[str]:
        """The names of the secrets for the provider that runs the task."""
        return self.source.secrets

    def asked(self, seed: bytes, slot_ms: int) -> AskedTask:
        """Return the prepared task. `seed` is 32 random bytes. Raise TaskFileError if it cannot be prepared."""
        return self.source.prepared(self.inputs, seed, slot_ms)

    def identity(self) -> tuple[bytes, ...]:
        """Return the identity of a submission: the task of the file, and every byte of its inputs."""
        return repr(self.source.file.task).encode(), *(self.inputs[path] for path in sorted(self.inputs))


def load_any(path: Path) -> LoadedTask:
    """Return the task of a file with its inputs.

    Raise TaskFileError with all faults of the file, or WalletError if it cannot be read.
    """
    source = read_any_task(_bytes_of(path), str(path))
    inputs = {name: _input(path, name, source.refused) for name in source.inputs}
    return LoadedTask(source, inputs, None if source.image is None else _image(path, source.image, source.refused))


def load(path: Path) -> TaskFile:
    """Return the training task of a file. Raise the errors of `load_any`."""
    return read_task(_bytes_of(path), str(path))


def load_input(path: Path, file: TaskFile) -> bytes:
    """Return the input of the training task at `path`. Raise TaskFileError if it is missing or refused."""
    return _input(path, file.task.input, TrainingSource(file).refused)


def _bytes_of(path: Path) -> bytes:
    return read_input(path, FILE_BYTES_MAX, "the task file ")


def _input(path: Path, name: str, refused: Callable[[str], TaskFileError]) -> bytes:
    try:
        with _beside(path, name, refused).open("rb") as opened:
            return opened.read(INPUT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise refused(f"{name} cannot be read: {_why(error)}; put it beside the task file, or name another") from None


def _image(path: Path, saved: SavedImage, refused: Callable[[str], TaskFileError]) -> ArchiveFile:
    try:
        return look_at_image(_beside(path, saved.path, refused), saved.sha256)
    except ImageFileError as error:
        raise refused(str(error)) from None
    except (OSError, ValueError) as error:
        raise refused(f"{saved.path} cannot be read: {_why(error)}; put it beside the task file") from None


def _beside(path: Path, name: str, refused: Callable[[str], TaskFileError]) -> Path:
    """Return the path of a file that a task file names. Raise OSError or ValueError if there is none."""
    folder = path.parent.resolve()
    found = (folder / name).resolve(strict=True)
    if not found.is_relative_to(folder):
        raise refused(f"{name} leads out of the task file's folder; put the input beside the task file")
    if not found.is_file():
        raise refused(f"{name} is no file; name the file to learn")
    return found


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "no such path"


SALT_BYTES = 32
NOT_STORED = StoredInput(bytes(32), bytes(32), 0)
"""Placeholders in an order that is not sent. They have the length of real ones."""


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A prepared task, with the chain's rules for it."""

    asked: AskedTask
    rules: TaskRules
    slot_ms: int

    def order(self, stored: StoredInput = NOT_STORED) -> TaskOrder:
        """Return the order to submit. Raise TaskFileError if this chain would refuse it."""
        return self.asked.order(stored, self.rules, self.slot_ms)


@dataclass(frozen=True, slots=True)
class ImageUpload:
    """The archive of a task's image, and the folder of its upload record."""

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
    def buyer(self) -> Buyer:
        """The key alone: budgets pay no tasks."""
        return Buyer.alone(self.key.account)

    @property
    def kind(self) -> PostingKind:
        """The posting of tasks."""
        return TASK_POSTING

    async def terms(self, requests: Sequence[bytes], tell: Callable[[], None]) -> Sequence[TaskOrder]:
        """Seal the request to all possible validators and bidders and to the customer, store it, and return the order.

        Raise BlobError if it cannot be stored, or PostError if there is no reader to seal it to.
        """
        client, orders = self.client, []
        final = await client.finalized()
        sealed_at = await client.height(final)
        providers = await market_reads.providers(client, final)
        checkers = await market_reads.checking_readers(client, final)
        bidders = bidders_of(await market_reads.devices(client, final), providers, self.draft.asked.classes)
        keys = list(dict.fromkeys(keys_at([*checkers, *bidders], sealed_at)))
        if not keys:
            raise PostError(
                "no registered provider could run or check the task. See `ogpu offer providers`", code="no_providers"
            )
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
        """Return the draft with the places of its stored image parts. Raise BlobError if they cannot be stored."""
        asked, identity = self.draft.asked, (self.client.genesis_hash, self.key.account)
        assert isinstance(asked, PreparedContainer), "no other task has an image"
        uploader = Uploader(self.blobs, readers, endpoints, upload.say)
        parts = await uploader.uploaded(upload.image, upload.folder, identity)
        return replace(self.draft, asked=asked.with_parts(upload.image.size, parts))


def bidders_of(
    devices: Iterable[DeviceStatus], providers: dict[bytes, Provider], classes: Iterable[DeviceClass]
) -> list[InputReader]:
    """Return the owners of suitable devices, by ascending account.

    Busy ones count, because they may be free soon.
    """
    suiting = set(classes)
    owners = {status.device.owner for status in devices if status.device.kind in suiting}
    return [
        InputReader(owner, providers[owner].seal_key, providers[owner].key_since)
        for owner in sorted(owners)
        if owner in providers
    ]


# Each part of an image is sealed to all possible bidders and validators, and to the customer. A stored part is recorded
# before the next one is sent, so the same command resumes after it. The record is valid for the same readers only, and
# for half of the time for which stores keep strangers' blobs.
AT_ONCE = 4
FRESH_SECONDS = 12 * 3_600


class UploadRecord:
    """The stored parts, and the start of the upload."""

    def __init__(self, outbox: OutboxFile, identity: Sequence[bytes], now: float) -> None:
        """Read the parts of an earlier try, and forget old ones."""
        self._outbox, self._name = outbox, record_name(*identity)
        self.began_at = now
        self.parts: dict[int, ImagePart] = {}
        # A clock that was set back must not keep an old record fresh.
        outbox.execute(
            "DELETE FROM stored_parts WHERE image = ? AND (began_at > ? OR began_at <= ?)", self._name, now,
            now - FRESH_SECONDS,
        )  # fmt: skip
        rows = outbox.rows("SELECT number, blob, root, began_at FROM stored_parts WHERE image = ?", self._name)
        for number, blob, root, began_at in rows:
            self.parts[number], self.began_at = ImagePart(blob, root), began_at

    def note(self, number: int, part: ImagePart) -> None:
        """Note a stored part."""
        self._outbox.execute(
            "INSERT OR REPLACE INTO stored_parts VALUES (?, ?, ?, ?, ?)", self._name, number, part.blob, part.root,
            self.began_at,
        )  # fmt: skip
        self.parts[number] = part

    def begin_anew(self, now: float) -> None:
        """Forget the parts, which no store has any more."""
        self._outbox.execute("DELETE FROM stored_parts WHERE image = ?", self._name)
        self.parts.clear()
        self.began_at = now


@dataclass(frozen=True, slots=True)
class Uploader:
    """Stores the parts of one image for some readers."""

    blobs: BlobClient
    readers: Sequence[bytes]
    endpoints: Sequence[str]
    say: Callable[[str], None]

    async def uploaded(self, image: ArchiveFile, folder: Path, identity: Sequence[bytes]) -> list[ImagePart]:
        """Return all parts, stored now or earlier. Raise BlobError, ImageFileError or RecordError if that fails."""
        # Compression takes seconds, in which the connection to the node must go on.
        parts = await asyncio.to_thread(image.parts)
        with OutboxFile(folder) as outbox:
            record = UploadRecord(outbox, (*identity, image.sha256, *sorted(self.readers)), time.time())
            return await self._stored(parts, record)

    async def _stored(self, parts: Sequence[bytes], record: UploadRecord) -> list[ImagePart]:
        if record.parts and not await self._is_kept(record):
            record.begin_anew(time.time())
        missing = [number for number in range(len(parts)) if not _is_of(record.parts.get(number), parts[number])]
        if missing:
            self.say(f"storing the image: {len(missing)} of {counted(len(parts), 'part')}, up to a mebibyte each")
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
        except* (BlobError, RecordError) as errors:
            stored = (
                f"{len(record.parts)} of {counted(len(parts), 'part')} of the image stored. Repeat the same command"
            )
            raise BlobError(f"{_first(errors)}. {stored}") from None
        return [record.parts[number] for number in range(len(parts))]

    async def _is_kept(self, record: UploadRecord) -> bool:
        """Return True if a store still has the first part of an earlier try. The stores of another network do not."""
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
