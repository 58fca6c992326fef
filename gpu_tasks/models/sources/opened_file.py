"""A file that stays open and is read at offsets.

It is not mapped into memory, so a file that another program cuts short raises an error and kills no process.
"""

from __future__ import annotations

import os
import stat
import weakref
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.source_model import MODEL_BYTES_MAX, SourceError


class OpenedFile:
    """A regular file of at most MODEL_BYTES_MAX bytes. It closes when its last user is gone."""

    def __init__(self, descriptor: int, name: str) -> None:
        """Own the descriptor. `name` stands in errors."""
        # This comes first, so a file that is refused below is closed too.
        weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor
        self.name = name
        file_status = os.fstat(descriptor)
        if not stat.S_ISREG(file_status.st_mode):
            raise SourceError("not_found", f"{name} is not a regular file")
        if file_status.st_size > MODEL_BYTES_MAX:
            raise SourceError("too_large", f"{name} has more than {MODEL_BYTES_MAX} bytes")
        self.size = file_status.st_size

    @classmethod
    def of_path(cls, path: Path) -> OpenedFile:
        """Open a file by its path. Raise SourceError if that fails."""
        try:
            # Without O_NONBLOCK, a named pipe would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SourceError("not_found", f"{path.name} cannot be opened: {reason}") from None
        return cls(descriptor, path.name)

    @classmethod
    def of_stream(cls, stream: BinaryIO, name: str) -> OpenedFile:
        """Keep the file behind a stream open, the stream itself apart."""
        # A file without a name lives while any descriptor is open, so the copy outlives its stream.
        return cls(os.dup(stream.fileno()), name)

    def read(self, offset: int, length: int) -> bytes:
        """Return a range. Raise SourceError if the file ends before its end."""
        return self.read_array(offset, length).tobytes()

    def read_array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Return a range as an array of bytes. Raise SourceError if the file ends before its end."""
        # The length comes from a stranger's header: compare it with the file before the array takes the memory.
        if offset < 0 or length < 0 or offset + length > self.size:
            raise SourceError("out_of_file", f"{self.name} ends before byte {offset + length}: the file is cut short")
        array = np.empty(length, dtype=np.uint8)
        array_view, bytes_read = array.data, 0
        while bytes_read < length:
            try:
                count = os.preadv(self._descriptor, [array_view[bytes_read:]], offset + bytes_read)
            except OSError as error:
                raise SourceError("not_found", f"{self.name} cannot be read: {error.strerror}") from None
            if count == 0:
                raise SourceError("out_of_file", f"{self.name} became shorter while it was read")
            bytes_read += count
        return array

    def read_all(self, most: int) -> bytes:
        """Return the whole file. Raise SourceError if it has more than `most` bytes."""
        if self.size > most:
            raise SourceError("too_large", f"{self.name} has {self.size} bytes; at most {most} are read")
        return self.read(0, self.size)
