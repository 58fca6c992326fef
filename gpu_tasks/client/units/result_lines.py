"""Results and errors as lines in the form of the request file, and the two files of a run for them.

Invariants:

* A line depends only on the arguments, so writing it again gives the same bytes. No clock is read.
* A file of another run is never written. Bytes beyond the recorded end, left by a crash, are cut off.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from durable.folders import OWNER_ONLY, sync_folder
from gpu_tasks.client.output_files import NOT_WRITABLE, may_create_in
from gpu_tasks.client.units.line_reader import CHAT_COMPLETIONS
from gpu_tasks.client.units.lines import BatchLine, FileForm, LineError
from gpu_tasks.client.units.run_record import FileEnds
from runtime.cryptography.hashing import blake2_256
from wallet.errors import WalletError

# The first two codes are OpenAI's own, so programs for its API understand them.
EXPIRED = "batch_expired"
CANCELLED = "batch_cancelled"
FAILED = "request_failed"
REFUTED = "answer_refuted"
UNCHECKED = "answer_unchecked"
_STOPPED = {
    EXPIRED: "This request could not be executed before the batch ended.",
    CANCELLED: "This request was cancelled before it was executed.",
}
_ID_CHARS = 24


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """The answer of a computed request."""

    text: str
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """The place of a request on the chain: a unit's id, and the request's index in it."""

    unit: bytes
    index: int

    def name(self, prefix: str) -> str:
        """Return an id that is the same at each writing."""
        return prefix + blake2_256(self.unit + self.index.to_bytes(4, "little")).hex()[:_ID_CHARS]


@dataclass(frozen=True, slots=True)
class LineWriter:
    """Writes the lines of one run."""

    form: FileForm
    endpoint: str | None
    """The endpoint of OpenAI's form."""
    model: str
    created: int
    """The start of the run, in Unix seconds."""

    def answered(self, line: BatchLine, answer: LineAnswer, place: UnitPlace) -> bytes:
        """Return a line of the output file."""
        if self.form is not FileForm.OPENAI:
            return _line(
                {
                    **_named(line.number, line.custom_id),
                    "text": answer.text,
                    "tokens_in": answer.tokens_in,
                    "tokens_out": answer.tokens_out,
                }
            )
        response = _response(200, place.name("req_"), self._body(line, answer, place))
        return _openai(place.name("batch_req_"), line.custom_id, response, None)

    def refused(self, error: LineError) -> bytes:
        """Return an error line for an invalid line, which was never posted."""
        if self.form is not FileForm.OPENAI:
            return _line(
                {
                    **_named(error.number, error.custom_id),
                    "error": {"code": error.code, "message": error.message, "param": error.param},
                }
            )
        # Units have ids of 32 bytes, so this name equals none of theirs.
        place = UnitPlace(b"refused", error.number)
        body = {
            "error": {
                "message": error.message,
                "type": "invalid_request_error",
                "param": error.param,
                "code": error.code,
                "line": error.number,
            }
        }
        return _openai(place.name("batch_req_"), error.custom_id, _response(400, place.name("req_"), body), None)

    def rejected(self, line: BatchLine, place: UnitPlace) -> bytes:
        """Return an error line for a request that its provider could not read as one of the workload."""
        why = "The provider could not read this as a request of the model; nothing is paid for it."
        return self._error(line, place.name("batch_req_"), "invalid_request", why)

    def failed(self, line: BatchLine, place: UnitPlace, why: str) -> bytes:
        """Return an error line for a request whose unit ended without a result."""
        return self._error(line, place.name("batch_req_"), FAILED, why)

    def refuted(self, line: BatchLine, place: UnitPlace, *, is_wrong: bool) -> bytes:
        """Return an error line for an answered request whose claim did not pass: found wrong, or not decided."""
        found = "was found wrong" if is_wrong else "could not be checked"
        why = (
            f"The result of its unit {found} after this was answered, and the price came back: do not rely on the "
            "answer in the file of results. To ask once more, name another --out."
        )
        return self._error(line, place.name("batch_req_"), REFUTED if is_wrong else UNCHECKED, why)

    def name_of(self, line: BatchLine, place: UnitPlace) -> str:
        """Return the name by which a line of the results file is found."""
        return place.name("batch_req_") if self.form is FileForm.OPENAI else str(line.number)

    @staticmethod
    def name_in(row: Mapping[str, Any]) -> str:
        """Return the name of a line in the results file of any form."""
        return str(row["index"] if "index" in row else row["id"])

    def stopped(self, line: BatchLine, code: str) -> bytes:
        """Return an error line for a request without an answer when the run was cancelled or its window was over."""
        return self._error(line, UnitPlace(b"stopped", line.number).name("batch_req_"), code, _STOPPED[code])

    def _error(self, line: BatchLine, name: str, code: str, message: str) -> bytes:
        if self.form is not FileForm.OPENAI:
            error = {"code": code, "message": message, "param": None}
            return _line({**_named(line.number, line.custom_id), "error": error})
        return _openai(name, line.custom_id, None, {"code": code, "message": message})

    def _body(self, line: BatchLine, answer: LineAnswer, place: UnitPlace) -> dict[str, Any]:
        is_chat = self.endpoint == CHAT_COMPLETIONS
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        return {
            "id": place.name("chatcmpl-" if is_chat else "cmpl-"),
            "object": "chat.completion" if is_chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    **({"message": message} if is_chat else {"text": answer.text}),
                    "logprobs": None,
                    # The chain keeps no reason for an end, so an answer that reached its limit counts as cut off.
                    "finish_reason": "length" if answer.tokens_out >= line.cost_max else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": answer.tokens_in,
                "completion_tokens": answer.tokens_out,
                "total_tokens": answer.tokens_in + answer.tokens_out,
            },
        }


def _named(number: int, custom_id: str | None) -> dict[str, Any]:
    return {"index": number} if custom_id is None else {"index": number, "id": custom_id}


def _response(status: int, request_id: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"status_code": status, "request_id": request_id, "body": body}


def _openai(name: str, custom_id: str | None, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    return _line({"id": name, "custom_id": custom_id, "response": response, "error": error})


def _line(found: dict[str, Any]) -> bytes:
    """Return one line.

    JSON escapes line breaks in texts, and ASCII has no other character that a reader could split at.
    """
    return json.dumps(found, separators=(",", ":")).encode("ascii") + b"\n"


class ResultFilesError(WalletError):
    """A file of the run cannot be written. The text gives the reason and the next step."""


@dataclass(slots=True)
class ResultFiles:
    """Both files, open. Use it as a context manager."""

    output: Path
    errors: Path
    _descriptors: tuple[int, int]

    @classmethod
    def create(cls, output: Path, errors: Path) -> Self:
        """Open the files of a new run.

        They must be missing, or empty as a crash before the first entry leaves them.
        """
        return cls._opened(output, errors, None)

    @classmethod
    def take_up(cls, output: Path, errors: Path, ends: FileEnds) -> Self:
        """Open the files of a resumed run, and cut them off at their recorded ends."""
        return cls._opened(output, errors, ends)

    @classmethod
    def _opened(cls, output: Path, errors: Path, ends: FileEnds | None) -> Self:
        first = _open(output, None if ends is None else ends.output)
        try:
            second = _open(errors, None if ends is None else ends.errors)
        except ResultFilesError:
            os.close(first)
            raise
        return cls(output, errors, (first, second))

    def __enter__(self) -> Self:
        """Return the open files."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files. Written lines stay."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def results(self) -> Iterator[bytes]:
        """Return the lines of results so far."""
        return _read_lines(self._descriptors[0])

    def add(self, results: Sequence[bytes], errors: Sequence[bytes]) -> FileEnds:
        """Write lines to both files and return the new ends, once they are on the disk.

        Raise ResultFilesError if that fails. The record then keeps the old ends.
        """
        output, second = self._descriptors
        return FileEnds(_append_lines(output, self.output, results), _append_lines(second, self.errors, errors))


def _read_lines(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        stream.seek(0)
        yield from stream


def _open(path: Path, end: int | None) -> int:
    """Open a file at `end` and return its descriptor. With `end` None it must be empty."""
    # No link is followed, so no other file is overwritten; and a named pipe must not block the run.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, OWNER_ONLY)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _prepare(descriptor, path, end)
        sync_folder(path.parent)
    except (OSError, ResultFilesError) as error:
        os.close(descriptor)
        if isinstance(error, ResultFilesError):
            raise
        raise _unwritable(path, error) from None
    return descriptor


def require_files(output: Path, errors: Path, ends: FileEnds | None) -> None:
    """Raise ResultFilesError for files that `ResultFiles` would refuse. Nothing is created."""
    sizes = (None, None) if ends is None else (ends.output, ends.errors)
    for path, end in zip((output, errors), sizes, strict=True):
        try:
            # Not `stat`: a link is refused, not followed.
            found = path.lstat()
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise ResultFilesError(
                    f"{path} cannot be written: there is no folder {path.parent}. Name another file",
                    code="folder_missing",
                ) from None
            is_writable = may_create_in(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from None
        else:
            _require_own(found, path, end)
            is_writable = os.access(path, os.R_OK | os.W_OK)
        if not is_writable:
            raise ResultFilesError(
                f"{path} cannot be written: {NOT_WRITABLE}. Name another file", code="file_unwritable"
            )


def _require_own(found: os.stat_result, path: Path, end: int | None) -> None:
    """Raise ResultFilesError unless a file is empty, or has all that the run wrote."""
    if not stat.S_ISREG(found.st_mode):
        raise ResultFilesError(f"{path} is not a plain file. Name another file", code="not_a_file")
    if end is None and found.st_size:
        raise ResultFilesError(f"{path} exists, and this run did not write it. Name a new file", code="file_exists")
    if end is not None and found.st_size < end:
        raise ResultFilesError(
            f"{path} has {found.st_size:,} bytes, and this run wrote {end:,}. Put the file back, or fetch the answers "
            "with `ogpu unit result`",
            code="file_shorter",
        )


def _unwritable(path: Path, error: OSError) -> ResultFilesError:
    return ResultFilesError(f"{path} cannot be written: {error.strerror}. Name another file", code="file_unwritable")


def _prepare(descriptor: int, path: Path, end: int | None) -> None:
    _require_own(os.fstat(descriptor), path, end)
    # Lines beyond the recorded end are of a unit that the record does not have, and are written again.
    os.ftruncate(descriptor, end or 0)
    os.fsync(descriptor)


def _append_lines(descriptor: int, path: Path, lines: Sequence[bytes]) -> int:
    data = memoryview(b"".join(lines))
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        return os.lseek(descriptor, 0, os.SEEK_END)
    except OSError as error:
        raise ResultFilesError(
            f"{path} cannot be written: {error.strerror}. Make room, and repeat the same command", code="disk_full"
        ) from None
