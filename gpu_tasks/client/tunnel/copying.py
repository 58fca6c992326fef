"""Files into a container, and out of it, as archives.

Always: what comes from a provider is unpacked as strangers' archives are: plain files and folders with plain names,
none over what is there already, within limits.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any, cast

from gpu_tasks.tunnel.frames import COPY_BYTES_MAX, CopyIn, CopyOut
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError

FILES_MAX = 10_000
_PIECE = 1 << 20
KEPT_IN_MEMORY = 1 << 20


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
    try:
        with tarfile.open(fileobj=cast("Any", spool), mode="r|") as archive:
            for entry in archive:
                if len(names) >= FILES_MAX:
                    raise TunnelError(f"the archive has more than {FILES_MAX} files")
                place = _place(target, entry.name)
                if entry.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                content = archive.extractfile(entry) if entry.isfile() else None
                if content is None:
                    raise TunnelError(f"the provider sends {entry.name[:80]!r}, which is no plain file")
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as file:
                    while piece := content.read(_PIECE):
                        file.write(piece)
                names.append(entry.name)
    except tarfile.TarError as error:
        raise TunnelError(f"the provider sends what is no archive: {error}") from None
    except FileExistsError as error:
        raise TunnelError(f"{error.filename} is there already: name another folder") from None
    return names


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
