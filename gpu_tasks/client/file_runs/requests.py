"""The requests of a file: where each stands and what it weighs is kept, what it says is read when it is needed.

Always: memory grows with the number of lines, by a few hundred bytes each, and not with what is in them; what is read
once more is what was read at first, or the file is refused as changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Self

from gpu_tasks.client.batches.line_forms import LineTerms
from gpu_tasks.client.batches.lines import BatchLine, FileForm, LineError
from gpu_tasks.client.batches.reading import BatchReader, RawPlace, read_again
from gpu_tasks.client.batches.splitting import LineLoad, load_of


@dataclass(frozen=True, slots=True)
class FileRequests:
    """All lines of a file."""

    stream: BinaryIO
    form: FileForm
    endpoint: str | None
    digest: bytes
    loads: tuple[LineLoad, ...]
    """Of the lines that ask something, in their order."""
    refused: tuple[LineError, ...]
    _places: tuple[RawPlace, ...]

    @classmethod
    def read(cls, stream: BinaryIO, terms: LineTerms, form: FileForm | None) -> Self:
        """The whole file, from its beginning; BatchFileError."""
        stream.seek(0)
        reader = BatchReader(stream, terms, form)
        loads, places, refused = [], [], []
        for line in reader:
            if isinstance(line, BatchLine):
                loads.append(load_of(line.number, terms.request(line), terms.form))
                places.append(reader.place)
            else:
                refused.append(line)
        return cls(stream, reader.form, reader.endpoint, reader.digest, tuple(loads), tuple(refused), tuple(places))

    def lines(self, first: int, count: int, terms: LineTerms) -> list[BatchLine]:
        """So many lines from a place on, refused ones not counted; BatchFileError where the file was changed."""
        found: list[BatchLine] = []
        for place in self._places[first : first + count]:
            match read_again(self.stream, place, self.form, self.endpoint, terms):
                case BatchLine() as line:
                    found.append(line)
                case _:
                    raise AssertionError("the same bytes ask the same")
        return found
