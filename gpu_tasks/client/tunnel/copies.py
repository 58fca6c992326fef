"""Files into a container, and out of it, as archives.

Always: what comes from a provider is unpacked as strangers' archives are: plain files and folders with plain names,
none over what is there already, within limits.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpu_tasks.tunnel.frames import COPY_BYTES_MAX, CopyIn, CopyOut
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError

FILES_MAX = 10_000
_PIECE = 1 << 20
KEPT_IN_MEMORY = 1 << 20
RECORD_BYTES_MAX = 4_096
"""Of a pax header, which a long name has."""
PLAIN_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)


async def copy_in(tunnel: Multiplexer, source: Path, path: str) -> int:
    """Put a file or folder under a folder of the container; how many bytes went. TunnelError, OSError."""
    with tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY) as spool:
        await asyncio.to_thread(_packed, source, spool)
        size = spool.tell()
        spool.seek(0)
        stream = await tunnel.open(CopyIn(path))
        while piece := await asyncio.to_thread(spool.read, _PIECE):
            await stream.write(piece)
        await stream.end_input()
        end = await stream.end
    if end.problem:
        raise TunnelError(end.problem)
    return size


async def copy_out(tunnel: Multiplexer, path: str, target: Path) -> list[str]:
    """Fetch a file or folder of the container into a folder; the names that are there now. TunnelError, OSError."""
    with tempfile.SpooledTemporaryFile(KEPT_IN_MEMORY) as spool:
        stream = await tunnel.open(CopyOut(path))
        size = 0
        while (found := await stream.read()) is not None:
            size += len(found[1])
            if size > COPY_BYTES_MAX:
                raise TunnelError("the provider sends more than a copy may have")
            await asyncio.to_thread(spool.write, found[1])
        end = await stream.end
        if end.problem:
            raise TunnelError(end.problem)
        spool.seek(0)
        return await asyncio.to_thread(_unpacked, spool, target)


def _packed(source: Path, spool: IO[bytes]) -> None:
    """An archive of a file, or of a folder under its name; links are left out, and named."""
    with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(source, source.resolve().name, filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isfile() or entry.isdir()):
        return None
    plain = tarfile.TarInfo(entry.name)
    plain.size, plain.mode, plain.type = entry.size, entry.mode & 0o755, entry.type
    return plain


def _unpacked(spool: IO[bytes], target: Path) -> list[str]:
    target.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    there: set[Path] = set()
    try:
        for entry, name in _entries(spool):
            place = _place(target, name)
            there.update((place, *(above for above in place.parents if above != target and target in above.parents)))
            if len(there) > FILES_MAX:
                raise TunnelError(f"the archive has more than {FILES_MAX} files and folders")
            if entry.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                _write(spool, entry.size, file)
            names.append(name)
    except tarfile.TarError as error:
        raise TunnelError(f"the provider sends what is no archive: {error}") from None
    except FileExistsError as error:
        raise TunnelError(f"{error.filename} is there already: name another folder") from None
    return names


def _entries(spool: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """The entries with their names, of plain headers and the long names of pax alone; TarError, TunnelError.

    Who takes one has read its content before the next. No reader of all kinds of archives looks at what a provider
    sends: in a few hundred bytes a sparse file has a terabyte, and a header takes hours, or the stack.
    """
    path = ""
    while any(header := spool.read(tarfile.BLOCKSIZE)):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        if entry.type == tarfile.XHDTYPE and not path and 0 <= entry.size <= RECORD_BYTES_MAX:
            path = _path_in(spool.read(-(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)[: entry.size])
            continue
        is_plain = entry.type in PLAIN_FILES and entry.size >= 0
        if not is_plain and not (entry.type == tarfile.DIRTYPE and entry.size == 0):
            raise TunnelError(f"the provider sends {entry.name[:80]!r}, which is no plain file")
        yield entry, path.removesuffix("/") if path and entry.isdir() else path or entry.name
        path = ""


def _path_in(records: bytes) -> str:
    """The name that a pax header gives the entry behind it; none where it gives none."""
    _, _, rest = records.partition(b" path=")
    return rest.partition(b"\n")[0].decode(errors="replace")


def _write(spool: IO[bytes], size: int, file: IO[bytes]) -> None:
    """The content of an entry, and what it is padded with; TunnelError where it breaks off."""
    left = size
    while left:
        piece = spool.read(min(left, _PIECE))
        if not piece:
            raise TunnelError("the archive breaks off within a file")
        file.write(piece)
        left -= len(piece)
    spool.read(-size % tarfile.BLOCKSIZE)


def _place(target: Path, name: str) -> Path:
    parts = name.split("/")
    if any(part in {"", ".", ".."} or not part.isprintable() for part in parts):
        raise TunnelError(f"the provider names a file {name[:80]!r}, which leads elsewhere")
    place = target.joinpath(*parts)
    for above in place.parents:
        if above == target:
            break
        if above.is_symlink():
            raise TunnelError(f"{above} is a link")
    return place
