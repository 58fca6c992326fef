"""The finished requests of a batch in progress, on disk, so that a crash does not repeat their computation.

Invariants:

* Appended records survive a crash, except that the crash may tear the last one.
* This file holds no promises (the journal does), so an unreadable record is skipped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from gpu_tasks.batches.outcomes import COMPLETED_BYTES_MAX
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.provider.journal.journal import framed, whole_records
from gpu_tasks.provider.journal.records import Basis
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, Bounded, DecodeError, codec, struct
from wallet.private_file import own_opener

FOLDER_MODE = 0o700
FILE_BYTES_MAX = 64 * 1024 * 1024
"""More than this program writes for any batch."""
_RECORD_BYTES_MAX = COMPLETED_BYTES_MAX + 64


@struct
class _Done:
    place: U32
    output: Annotated[bytes, Bounded(COMPLETED_BYTES_MAX)] | None


_DONE = codec(_Done)
_BASIS = codec(Basis)


class FinishedRequests:
    """The finished requests of one unit, for one input and workload. Later attempts reuse them."""

    def __init__(self, base_path: Path, unit_id: bytes, basis: Basis) -> None:
        """Read the existing file. It is created with the first record."""
        self.path = base_path / f"{unit_id.hex()}-{blake2_256(_BASIS.encode(basis)).hex()[:32]}"
        self.outputs = dict(self._read_records())
        """Outputs by place; None for an invalid request."""

    def append(self, outputs: Sequence[tuple[int, bytes | None]]) -> None:
        """Append finished requests. They are on the disk when this returns. Raise OSError on failure."""
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        frames = b"".join(framed(_DONE.encode(_Done(index, output))) for index, output in outputs)
        with open(self.path, "ab", opener=own_opener) as file:
            file.write(frames)
            file.flush()
            # Without this a power cut would cost the computation again.
            os.fsync(file.fileno())
        self.outputs.update(outputs)

    def _read_records(self) -> Iterator[tuple[int, bytes | None]]:
        content, whole_bytes = _content(self.path), 0
        for end, requests in _records(content):
            yield from requests
            whole_bytes = end
        if whole_bytes < len(content):  # a torn record: later ones must not follow it
            os.truncate(self.path, whole_bytes)


def records_in(path: Path) -> list[tuple[int, bytes | None]]:
    """Return all finished requests of a file in order, even while another process writes it.

    A missing file has none.
    """
    return [request for _, requests in _records(_content(path)) for request in requests]


def _content(path: Path) -> bytes:
    """Return the content of a file; empty if it is missing."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return b""


def _records(content: bytes) -> Iterator[tuple[int, list[tuple[int, bytes | None]]]]:
    """Yield the end of each whole record, and its content if it can be decoded."""
    for end, body in whole_records(content, 0, _RECORD_BYTES_MAX):
        requests: list[tuple[int, bytes | None]] = []
        with contextlib.suppress(DecodeError):
            done: _Done = _DONE.decode(body)
            if done.place < REQUESTS_MAX:
                requests.append((done.place, done.output))
        yield end, requests


def forget(base_path: Path, unit_id: bytes) -> None:
    """Remove the files of a unit."""
    for path in list(base_path.glob(f"{unit_id.hex()}-*")):
        path.unlink(missing_ok=True)


def forget_others(base_path: Path, unit_ids: Iterable[bytes]) -> None:
    """Remove the files of all units except these."""
    kept_names = {unit_id.hex() for unit_id in unit_ids}
    for path in list(base_path.iterdir()) if base_path.exists() else []:
        if path.name.partition("-")[0] not in kept_names:
            path.unlink(missing_ok=True)
