"""The files of a model: a folder, or a wheel or zip archive."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from typing import Protocol

from gpu_tasks.models.sources.opened_file import OpenedFile
from gpu_tasks.models.sources.origin import LICENCE_MAX, SOURCE_MAX, ModelOrigin, licence_id, model_name, one_line
from gpu_tasks.models.sources.source_model import LICENCE_BYTES_MAX, MODEL_BYTES_MAX, SourceError

FILES_MAX = 10_000
FOLDER_DEPTH_MAX = 4
PATH_BYTES_MAX = 512
RECORD_BYTES_MAX = 4 * 2**20
EXPANSION_MAX = 100
"""Times by which an archive may grow. Weights shrink by a tenth, and text to a third."""
SMALL_ARCHIVE_BYTES = 2**20
"""An archive may grow to EXPANSION_MAX times this in any case."""
COPY_BYTES = 2**20
ZIP_ERRORS = (
    OSError, EOFError, RuntimeError, ValueError, ArithmeticError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""The errors that the library has for a damaged archive."""


class SourceFiles(Protocol):
    """Named files, the folders of a name parted by slashes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each file."""

    @property
    def origin(self) -> ModelOrigin:
        """The origin of the whole."""

    def open(self, name: str) -> OpenedFile:
        """Open a file. Raise SourceError if that fails."""


class FolderFiles:
    """The files of a folder and the folders in it."""

    def __init__(self, folder: Path) -> None:
        """List the files. A link may lead to another file of the folder, or to the store of Hugging Face's cache."""
        self._folder = folder
        root = folder.resolve()
        self._roots = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
        self.sizes: dict[str, int] = {}
        self._add(folder, PurePosixPath(), FOLDER_DEPTH_MAX)
        self.origin = self._origin(root)

    def open(self, name: str) -> OpenedFile:
        """Open a file. Raise SourceError if that fails or a link leads out of the folder."""
        path = self._folder / name
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:  # links in a circle
            raise SourceError("path", f"{name} cannot be followed: {error}") from None
        # A link called LICENSE could point to a private key, and the import would publish the key in a model.
        if not any(real.is_relative_to(root) for root in self._roots):
            raise SourceError("path", f"{name} is a link that leads out of the folder; put the file itself there")
        return OpenedFile.of_path(real)

    def _add(self, folder: Path, prefix: PurePosixPath, depth: int) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise SourceError("not_found", f"{folder.name} cannot be read: {error.strerror}") from None
        for entry in entries:
            if len(self.sizes) >= FILES_MAX:
                raise SourceError("too_large", f"the folder holds more than {FILES_MAX} files")
            try:
                # A link to a folder above would list the same files again and again.
                if entry.is_dir(follow_symlinks=False):
                    if depth and not entry.name.startswith("."):
                        self._add(Path(entry.path), prefix / entry.name, depth - 1)
                elif entry.is_file():
                    self.sizes[str(prefix / entry.name)] = entry.stat().st_size
            except OSError:
                continue  # removed meanwhile, or links in a circle

    def _origin(self, root: Path) -> ModelOrigin:
        if root.parent.name != "snapshots":
            return ModelOrigin(model_name(root.name), source=one_line(f"file:{root.name}", SOURCE_MAX))
        repository = root.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
        name = repository.rpartition("/")[2]
        source = one_line(f"huggingface:{repository}", SOURCE_MAX)
        return ModelOrigin(model_name(name), revision=one_line(root.name, 128), source=source)


class ArchiveFiles:
    """The files of a zip archive. A file is copied to a nameless temporary file when it is opened.

    A wheel lists the hash of each file, which is compared.
    """

    def __init__(self, path: Path) -> None:
        """Read the list of files. Raise SourceError for a damaged list, too much, or a name that leads out."""
        self._archive_name = path.name
        try:
            self._archive = zipfile.ZipFile(path)
            members = self._archive.infolist()
        except ZIP_ERRORS as error:
            raise SourceError("archive", f"{path.name} is no readable zip archive: {str(error)[:100]}") from None
        if len(members) > FILES_MAX:
            raise SourceError("too_large", f"{path.name} holds {len(members)} files; at most {FILES_MAX} are read")
        self._members = {}
        for member in members:
            self._check(member)
            if not member.is_dir():
                self._members[member.filename] = member
        self.sizes = {name: member.file_size for name, member in self._members.items()}
        self._check_growth(path)
        self._hashes: dict[str, str] | None = None
        self._hashes = self._recorded()
        self.origin = self._origin()

    def open(self, name: str) -> OpenedFile:
        """Copy a file out. Raise SourceError for a damaged one or another hash."""
        member = self._members[name]
        if shutil.disk_usage(tempfile.gettempdir()).free < member.file_size:
            raise SourceError("disk", f"{tempfile.gettempdir()} has no room for {name} of {member.file_size} bytes")
        found = hashlib.sha256()
        try:
            # The copy has no name, so a killed import leaves no gigabytes in the temporary folder.
            with self._archive.open(member) as packed, tempfile.TemporaryFile() as copy:
                while piece := packed.read(COPY_BYTES):
                    copy.write(piece)
                    found.update(piece)
                copy.flush()
                opened = OpenedFile.of_stream(copy, name)
        except ZIP_ERRORS as error:
            raise SourceError("archive", f"{name} in {self._archive_name} is damaged: {str(error)[:100]}") from None
        # The limits were checked with the sizes in the list at the archive's end, and the list may lie.
        if opened.size != member.file_size:
            raise SourceError("archive", f"{name} in {self._archive_name} has another size than its entry states")
        if self._hashes is not None and self._hashes.get(name) != found.hexdigest():
            raise SourceError("hash", f"{name} in {self._archive_name} has another hash than the wheel's RECORD states")
        return opened

    def _check(self, member: zipfile.ZipInfo) -> None:
        # `filename` is cut at a zero byte by the library, so a name that leads out could look plain.
        name = member.orig_filename
        parts = name.rstrip("/").split("/")
        if (
            len(name.encode(errors="replace")) > PATH_BYTES_MAX
            or any(part in {"", ".", ".."} for part in parts)
            or not name.isprintable()
            or "\\" in name
            or ":" in parts[0]
            or stat.S_ISLNK(member.external_attr >> 16)
        ):
            raise SourceError("path", f"{self._archive_name} holds the name {name[:100]!r}, which may lead out of it")
        # Readers differ in which of two equal names counts.
        if member.filename in self._members:
            raise SourceError("duplicate", f"{self._archive_name} holds {name[:100]} twice")
        if member.flag_bits & 1 or member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise SourceError("archive", f"{name[:100]} in {self._archive_name} is encrypted or packed in another way")

    def _check_growth(self, path: Path) -> None:
        total, packed = sum(self.sizes.values()), path.stat().st_size
        # A zip bomb of a few kilobytes would fill the disk, so the sum is checked before anything is unpacked.
        if total > min(MODEL_BYTES_MAX, EXPANSION_MAX * max(packed, SMALL_ARCHIVE_BYTES)):
            raise SourceError("too_large", f"{path.name} of {packed} bytes would unpack to {total} bytes")

    def _recorded(self) -> dict[str, str] | None:
        """Return the SHA-256 of each file by the RECORD of a wheel, or None for an archive without one."""
        record_names = [name for name in self.sizes if PurePosixPath(name).match("*.dist-info/RECORD")]
        if len(record_names) != 1:
            return None
        record_text = self.open(record_names[0]).read_all(RECORD_BYTES_MAX).decode(errors="replace")
        hashes = {}
        try:
            for record_row in csv.reader(record_text.splitlines()):
                if len(record_row) == 3 and record_row[1].startswith("sha256="):
                    # The wheel specification leaves base64's padding out. Python requires it and ignores a surplus.
                    hashes[record_row[0]] = base64.urlsafe_b64decode(record_row[1].removeprefix("sha256=") + "==").hex()
        except (csv.Error, ValueError) as error:
            raise SourceError("archive", f"{record_names[0]} is damaged: {str(error)[:100]}") from None
        return hashes

    def _origin(self) -> ModelOrigin:
        name = next((name for name in self.sizes if PurePosixPath(name).match("*.dist-info/METADATA")), None)
        if name is None:
            stem = Path(self._archive_name).stem
            return ModelOrigin(model_name(stem), source=one_line(f"file:{self._archive_name}", SOURCE_MAX))
        fields = BytesParser().parsebytes(self.open(name).read_all(RECORD_BYTES_MAX), headersonly=True)
        licence = str(fields["License-Expression"] or fields["License"] or "")
        package, version = str(fields["Name"] or ""), str(fields["Version"] or "")
        return ModelOrigin(
            model_name(package),
            licence=licence_id(licence) if len(licence) <= LICENCE_MAX and licence.isprintable() else "",
            licence_text=licence_text(self, PurePosixPath(name).parent),
            source=one_line(f"pypi:{package}=={version}", SOURCE_MAX),
        )


def licence_text(files: SourceFiles, folder: PurePosixPath) -> str:
    """Return the text of a licence file in a folder or in its folder `licenses`, or an empty text."""
    for name in sorted(files.sizes):
        path = PurePosixPath(name)
        if path.parent in {folder, folder / "licenses"} and path.name.upper().startswith(("LICENSE", "LICENCE")):
            return files.open(name).read_all(LICENCE_BYTES_MAX).decode(errors="replace")
    return ""
