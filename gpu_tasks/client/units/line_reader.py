"""A file as a stream of lines in one of three forms: each a request of the workload, or a refusal.

Invariants:

* A field that neither the form nor the workload knows is refused, never ignored.
* Memory holds one line of the file at a time, and a hash of each earlier id.
* Each line comes with its place, so it can be read again. A changed line is then noticed.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, BinaryIO

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX
from gpu_tasks.client.units.lines import (
    CUSTOM_ID_CHARS_MAX,
    FILE_BYTES_MAX,
    LINE_BYTES_MAX,
    LINES_MAX,
    OPENAI_NAMES,
    BatchFileError,
    BatchLine,
    FileForm,
    JsonNumber,
    LineError,
    LineRefusal,
    encoding_fault,
    first_line_fault,
    json_object,
    later_line_fault,
    line_text,
    not_utf8,
    shown,
    text_of,
    unmarked,
    whole_of,
)
from gpu_tasks.workloads.form import ChatMessage, RequestError, WorkloadForm, chat_text
from runtime.cryptography.hashing import blake2_256

COMPLETIONS = "/v1/completions"
CHAT_COMPLETIONS = "/v1/chat/completions"
ENDPOINTS = (COMPLETIONS, CHAT_COMPLETIONS)
# OpenAI's API takes a seed of 64 bits with a sign.
SEED_LEAST, SEED_MOST = -(2**63), 2**63 - 1
_COST_NAMES = ("max_tokens", "max_completion_tokens")
_TAKEN_FOR = {"custom_id": "id"}
"""Field names of the other form that people mistake for OpenAI's."""

MESSAGES_MAX = 1_024
# OpenAI's newer models call the role of system messages developer.
ROLES = ("system", "developer", "user", "assistant")
_FIELDS = ("role", "content")
_PARAM = "body.messages"


def messages_of(messages: Any) -> tuple[ChatMessage, ...]:
    """Return the messages of a chat. Raise LineRefusal for invalid ones."""
    if not isinstance(messages, list):
        raise LineRefusal("invalid_type", f"{_PARAM} must be a list, not {shown(messages)}", _PARAM)
    if not 1 <= len(messages) <= MESSAGES_MAX:
        raise LineRefusal("invalid_value", f"{_PARAM} holds {len(messages)} messages: give 1 to {MESSAGES_MAX}", _PARAM)
    return tuple(_message_of(message, f"{_PARAM}[{place}]") for place, message in enumerate(messages))


def _message_of(message: Any, param: str) -> ChatMessage:
    if not isinstance(message, dict):
        raise LineRefusal("invalid_type", f"{param} must be an object with role and content", param)
    for name in message:
        if name not in _FIELDS:
            raise LineRefusal(
                "unsupported_parameter",
                f"{shown(name)} of a message is not supported, and nothing is ignored: leave it out",
                # The file chooses this name, and a terminal may show it.
                f"{param}.{name}" if name.isidentifier() and name.isascii() else param,
            )
    for name in _FIELDS:
        if name not in message:
            raise LineRefusal("missing_required_parameter", f"{param} has no {name}", f"{param}.{name}")
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise LineRefusal(
            "invalid_value", f"{param}.role is one of {', '.join(ROLES)}, not {shown(role)}", f"{param}.role"
        )
    if isinstance(content, list):
        raise LineRefusal(
            "invalid_type",
            f"{param}.content must be a string: parts, images and sound are not supported",
            f"{param}.content",
        )
    return ChatMessage(role, text_of(content, f"{param}.content"))


@dataclass(frozen=True, slots=True)
class LineTerms:
    """The terms for reading all lines of a file."""

    form: WorkloadForm
    models: tuple[str, ...]
    """The names that a line may use for the service's model."""
    cost_default: int
    """The limit of a line that sets none, in the workload's unit of cost."""
    cost_most: int
    """The greatest limit that a line may set."""
    options: Mapping[str, str]
    """The options of all lines. A line may override them."""
    run_seed: bytes
    """32 random bytes of the run. Lines without a seed derive theirs from it, so a resumed run derives the same ones.
    """
    bytes_max: int = REQUEST_BYTES_MAX
    """The most bytes of a request. A single request may use the whole input, one of a batch less."""

    def request(self, line: BatchLine) -> bytes:
        """Return the workload's request. Raise RequestError for an invalid line."""
        options = {**self.options, **line.options}
        if line.messages:
            return self.form.encode_chat(line.messages, line.cost_max, options, line.seed)
        return self.form.encode(line.text, line.cost_max, options, line.seed)


def plain_line(text: str, line_number: int, terms: LineTerms) -> BatchLine | LineError:
    r"""Read a line as a prompt. Each `\n` in it is a line break."""
    line = BatchLine(
        line_number, None, text.replace("\\n", "\n"), terms.cost_default, {}, _derived_seed(line_number, terms)
    )
    return _checked_line(line, terms)


def object_line(line_bytes: bytes, line_number: int, terms: LineTerms) -> BatchLine | LineError:
    """Read a line such as `{"prompt": "Once", "max_tokens": 16, "id": "a"}`."""
    custom_id = None
    try:
        line_object = json_object(line_bytes)
        custom_id = _custom_id(line_object, ("id", "custom_id"))
        _require_known(line_object, ("prompt", "max_tokens", "seed", "id", "custom_id", *_option_fields(terms)), "")
        text = text_of(_needed_field(line_object, "prompt", ""), "prompt")
        line = _line_of_fields(line_object, text, line_number, custom_id, terms, "")
    except LineRefusal as refusal:
        return refusal.at(line_number, custom_id)
    return _checked_line(line, terms)


def endpoint_of(line_bytes: bytes) -> str | None:
    """Return the endpoint of a line of OpenAI's batch input, or None if it is unknown."""
    try:
        url = json_object(line_bytes).get("url")
    except LineRefusal:
        return None
    return url if url in ENDPOINTS else None


def openai_line(line_bytes: bytes, line_number: int, terms: LineTerms, endpoint: str | None) -> BatchLine | LineError:
    """Read a line of OpenAI's batch input. `endpoint` is the file's, or None before the first line with one."""
    custom_id = None
    try:
        line_object = json_object(line_bytes)
        custom_id = _custom_id(line_object, ("custom_id",))
        _needed_field(line_object, "custom_id", "")
        _require_known(line_object, ("custom_id", "method", "url", "body"), "")
        _check_target(line_object, endpoint)
        line = _line_of_body(_object_body(line_object), line_number, custom_id, terms, endpoint)
    except LineRefusal as refusal:
        return refusal.at(line_number, custom_id)
    return _checked_line(line, terms)


def undecodable(error: UnicodeDecodeError, line_number: int) -> LineError:
    """Return the error of a plain line that is not UTF-8."""
    return not_utf8(error).at(line_number, None)


def _object_body(line_object: Mapping[str, Any]) -> dict[str, Any]:
    body = _needed_field(line_object, "body", "")
    if not isinstance(body, dict):
        raise LineRefusal("invalid_type", f"body must be an object, not {shown(body)}", "body")
    return body


def _check_target(line_object: Mapping[str, Any], endpoint: str | None) -> None:
    method, url = _needed_field(line_object, "method", ""), _needed_field(line_object, "url", "")
    if method != "POST":
        raise LineRefusal("invalid_method", f"method must be POST, not {shown(method)}", "method")
    if url not in ENDPOINTS:
        raise LineRefusal("invalid_url", f"url is one of {', '.join(ENDPOINTS)}, not {shown(url)}", "url")
    if url != endpoint:
        raise LineRefusal("invalid_url", f"the lines of this file ask {endpoint}: {url} needs a file of its own", "url")


def _line_of_body(
    body: Mapping[str, Any], line_number: int, custom_id: str | None, terms: LineTerms, endpoint: str | None
) -> BatchLine:
    is_chat = endpoint == CHAT_COMPLETIONS
    asked = "messages" if is_chat else "prompt"
    # OpenAI's older endpoint never had `max_completion_tokens`.
    names = _COST_NAMES if is_chat else _COST_NAMES[:1]
    _require_known(body, ("model", asked, "seed", *names, *_option_fields(terms)), "body.")
    model = text_of(_needed_field(body, "model", "body."), "body.model")
    if model not in terms.models:
        raise LineRefusal(
            "mismatched_model",
            f"model {shown(model)} is not the service's: {', '.join(dict.fromkeys(terms.models))}",
            "body.model",
        )
    content = _needed_field(body, asked, "body.")
    messages = messages_of(content) if is_chat else ()
    text = chat_text(messages) if is_chat else text_of(content, "body.prompt")
    line = _line_of_fields(body, text, line_number, custom_id, terms, "body.")
    return replace(line, messages=messages)


def _line_of_fields(
    line_object: Mapping[str, Any],
    text: str,
    line_number: int,
    custom_id: str | None,
    terms: LineTerms,
    field_prefix: str,
) -> BatchLine:
    """Read the fields that the JSON forms share. `null` counts as absent."""
    present_fields = {name: value for name, value in line_object.items() if value is not None}
    cost_names = [name for name in _COST_NAMES if name in present_fields]
    if len(cost_names) > 1:
        raise LineRefusal(
            "invalid_value", f"give {cost_names[0]} or {cost_names[1]}, not both", f"{field_prefix}{cost_names[1]}"
        )
    cost = (
        whole_of(present_fields[cost_names[0]], f"{field_prefix}{cost_names[0]}", 1, terms.cost_most)
        if cost_names
        else terms.cost_default
    )
    options = {
        option: _option_text(present_fields[field], f"{field_prefix}{field}")
        for field, option in _option_fields(terms).items()
        if field in present_fields
    }
    seed = _derived_seed(line_number, terms)
    if "seed" in present_fields:
        seed = _given_seed(whole_of(present_fields["seed"], f"{field_prefix}seed", SEED_LEAST, SEED_MOST))
    return BatchLine(line_number, custom_id, text, cost, options, seed)


def _checked_line(line: BatchLine, terms: LineTerms) -> BatchLine | LineError:
    """Return the line, or an error if it is no valid request."""
    try:
        size = len(terms.request(line))
    except RequestError as error:
        return LineError(line.number, line.custom_id, "invalid_request", str(error), None)
    if size > terms.bytes_max:
        return LineError(
            line.number,
            line.custom_id,
            "request_too_large",
            f"the request has {size:,} bytes, and here {terms.bytes_max:,} are allowed: shorten the prompt",
            None,
        )
    return line


def _custom_id(line_object: Mapping[str, Any], names: Collection[str]) -> str | None:
    given = [name for name in names if line_object.get(name) is not None]
    if len(given) > 1:
        raise LineRefusal("invalid_value", f"give {' or '.join(given)}, not both", given[1])
    if not given:
        return None
    custom_id = text_of(line_object[given[0]], given[0])
    if not 1 <= len(custom_id) <= CUSTOM_ID_CHARS_MAX:
        raise LineRefusal(
            "invalid_value", f"{given[0]} has {len(custom_id)} characters: give 1 to {CUSTOM_ID_CHARS_MAX}", given[0]
        )
    return custom_id


def _require_known(line_object: Mapping[str, Any], names: Collection[str], field_prefix: str) -> None:
    for name in line_object:
        if name not in names:
            raise LineRefusal(
                "unsupported_parameter",
                f"{shown(f'{field_prefix}{name}')} is not supported, and nothing is ignored: leave it out; "
                f"there are: {', '.join(sorted(names))}",
                f"{field_prefix}{name}"[:CUSTOM_ID_CHARS_MAX] if name.isascii() and name.isprintable() else None,
            )


def _needed_field(line_object: Mapping[str, Any], name: str, field_prefix: str) -> Any:
    if line_object.get(name) is None:
        other = _TAKEN_FOR.get(name)
        wrote = f": you wrote {other}; the format wants {name}" if other is not None and other in line_object else ""
        raise LineRefusal(
            "missing_required_parameter", f"{field_prefix}{name} is missing{wrote}", f"{field_prefix}{name}"
        )
    return line_object[name]


def _option_text(value: Any, param: str) -> str:
    if isinstance(value, JsonNumber):
        return str(value)
    return text_of(value, param)


def _option_fields(terms: LineTerms) -> dict[str, str]:
    """Return the name of each option by its field, which has underscores, as OpenAI's `top_p`."""
    return {option.name.replace("-", "_"): option.name for option in terms.form.options}


def _derived_seed(line_number: int, terms: LineTerms) -> bytes:
    # The prefix keeps these seeds apart from those that a line names itself.
    return blake2_256(b"ogpu/batch-line-seed/1" + terms.run_seed + line_number.to_bytes(4, "little"))


def _given_seed(seed: int) -> bytes:
    """Return the seed for a number. It is the same in every file, so equal requests get equal answers."""
    return blake2_256(b"ogpu/batch-given-seed/1" + seed.to_bytes(8, "little", signed=True))


# Equal hashes of different ids would need about 2^64 lines, and would harm nobody but the author of the file.
_HASH_BYTES = 16
_EMPTY = "the file holds no request: write one a line"
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RawPlace:
    """The place of a line in a file, with its line feed."""

    start: int
    size: int
    number: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class _RawLine:
    """A line with its line feed, and its first byte. `data` is None for a line that is too long to keep."""

    start: int
    data: bytes | None


class BatchReader:
    """One reading of a file. Iterate it once: it yields the result of each line that is not empty, in order.

    It raises BatchFileError if the file as a whole is too large, or has no request.
    """

    def __init__(self, stream: BinaryIO, terms: LineTerms, file_form: FileForm | None = None) -> None:
        """Read the first line. With `file_form` None, that line decides the form."""
        self._stream = stream
        self._terms = terms
        self._hash = blake2b(digest_size=32)
        self._bytes = 0
        self._ids: dict[bytes, int] = {}
        """The line of each id, by the id's hash. Hashes bound the memory: ids may have 512 characters."""
        lines = self._raw_lines()
        before, first = _first_line(lines)
        self.form = file_form or _shown_form(first)
        self._is_told = file_form is not None
        self.endpoint: str | None = None
        """The endpoint of all OpenAI lines: that of the first line with a known one."""
        self.place = RawPlace(0, 0, 1, b"")
        """The place of the last yielded line."""
        self._raw = chain(before, [first], lines)

    def __iter__(self) -> Iterator[BatchLine | LineError]:
        """Yield the results of the lines."""
        line_count = blank_count = 0
        for line in self._lines():
            if line is None:
                blank_count += 1
                # Empty lines are no requests, so the limit of requests does not stop a file of line feeds.
                if blank_count > LINES_MAX:
                    raise BatchFileError(
                        f"the file has more than {LINES_MAX:,} empty lines. Remove them", code="too_many_empty_lines"
                    )
                continue
            line_count += 1
            if line_count > LINES_MAX:
                raise BatchFileError(
                    f"the file has more than {LINES_MAX:,} requests. Split it", code="too_many_requests"
                )
            yield self._once(line)
        if not line_count:
            raise BatchFileError(_EMPTY, code="file_empty")

    @property
    def digest(self) -> bytes:
        """The hash of the file, 32 bytes, valid after a whole reading. It shows whether the file has changed."""
        return self._hash.digest()

    def _lines(self) -> Iterator[BatchLine | LineError | None]:
        """Yield the lines. None stands for an empty line."""
        for line_number, raw_line in enumerate(self._raw, 1):
            if raw_line.data is None:
                yield _too_long_error(line_number)
                continue
            self.place = RawPlace(raw_line.start, len(raw_line.data), line_number, _line_hash(raw_line.data))
            if self.form is FileForm.OPENAI and self.endpoint is None:
                self.endpoint = endpoint_of(_without_mark(raw_line.data, raw_line.start).strip())
            if self.form is FileForm.LINES and not self._is_told and (fault := later_line_fault(raw_line.data)):
                raise BatchFileError(
                    f"line {line_number} {fault}, or give --form lines if it is a prompt", code="mixed_lines"
                )
            yield _parsed_line(raw_line.data, self.place, self.form, self.endpoint, self._terms)

    def _once(self, line: BatchLine | LineError) -> BatchLine | LineError:
        """Return the line, or an error if an earlier line has its id. A refused line uses up its id too."""
        if line.custom_id is None:
            return line
        key = blake2b(line.custom_id.encode(), digest_size=_HASH_BYTES).digest()
        earlier = self._ids.setdefault(key, line.number)
        if earlier == line.number:
            return line
        message = f"the custom_id stands in line {earlier} already: each line needs its own"
        return LineError(line.number, line.custom_id, "duplicate_custom_id", message, "custom_id")

    def _raw_lines(self) -> Iterator[_RawLine]:
        """Yield the lines, each with its line feed."""
        while data := self._chunk():
            start = self._bytes - len(data)
            if len(data) <= LINE_BYTES_MAX:
                yield _RawLine(start, data)
                continue
            # A line without an end could fill the memory: the rest of it is read in pieces and dropped.
            while not data.endswith(b"\n") and (data := self._chunk()):
                pass
            yield _RawLine(start, None)

    def _chunk(self) -> bytes:
        data = self._stream.readline(LINE_BYTES_MAX + 1)
        if (fault := encoding_fault(data, is_first=not self._bytes)) is not None:
            raise BatchFileError(fault, code="invalid_line")
        self._hash.update(data)
        self._bytes += len(data)
        if self._bytes > FILE_BYTES_MAX:
            raise _too_large()
        return data


def digest_of(stream: BinaryIO) -> bytes:
    """Return the hash of the whole file. Raise BatchFileError if the file is too large."""
    file_hash, size = blake2b(digest_size=32), 0
    while piece := stream.read(_PIECE_BYTES):
        file_hash.update(piece)
        size += len(piece)
        if size > FILE_BYTES_MAX:
            raise _too_large()
    return file_hash.digest()


def read_again(
    stream: BinaryIO, place: RawPlace, file_form: FileForm, endpoint: str | None, terms: LineTerms
) -> BatchLine | LineError | None:
    """Read a line again at its place. Raise BatchFileError if the bytes there have changed."""
    stream.seek(place.start)
    data = stream.read(place.size)
    # An edit between post and answer would give the answer of one prompt to another.
    if _line_hash(data) != place.hash:
        raise BatchFileError(
            "the file was changed while it was in use. Leave it as it is until its answers are written",
            code="file_changed",
        )
    return _parsed_line(data, place, file_form, endpoint, terms)


def _parsed_line(
    raw_line: bytes, place: RawPlace, file_form: FileForm, endpoint: str | None, terms: LineTerms
) -> BatchLine | LineError | None:
    """Return the request of a line, or None for an empty line."""
    content = _without_mark(raw_line, place.start)
    if file_form is FileForm.LINES:
        return _prompt_line(content, place.number, terms)
    if not (line_bytes := content.strip()):
        return None
    if file_form is FileForm.OBJECTS:
        return object_line(line_bytes, place.number, terms)
    return openai_line(line_bytes, place.number, terms, endpoint)


def _line_hash(raw_line: bytes) -> bytes:
    return blake2b(raw_line, digest_size=_HASH_BYTES).digest()


def _too_large() -> BatchFileError:
    return BatchFileError(f"the file has more than {FILE_BYTES_MAX:,} bytes. Split it", code="file_too_large")


def _first_line(lines: Iterator[_RawLine]) -> tuple[list[_RawLine], _RawLine]:
    """Return the first line that is not empty, and those before it."""
    blank_lines: list[_RawLine] = []
    for raw_line in lines:
        if raw_line.data is None or _without_mark(raw_line.data, raw_line.start).strip():
            return blank_lines, raw_line
        blank_lines.append(raw_line)
        if len(blank_lines) > LINES_MAX:
            break
    raise BatchFileError(_EMPTY, code="file_empty")


def _shown_form(first: _RawLine) -> FileForm:
    """Return the form that a first line shows. Raise BatchFileError for JSON that is no request."""
    if first.data is None:
        return FileForm.LINES
    line = _without_mark(first.data, first.start).strip()
    if (fault := first_line_fault(line)) is not None:
        raise BatchFileError(f"the first line {fault}, or give --form lines if it is a prompt", code="invalid_line")
    if not line.startswith(b"{"):
        return FileForm.LINES
    return FileForm.OPENAI if any(name in json_object(line) for name in OPENAI_NAMES) else FileForm.OBJECTS


def _prompt_line(content: bytes, line_number: int, terms: LineTerms) -> BatchLine | LineError | None:
    try:
        text = line_text(content)
    except UnicodeDecodeError as error:
        return undecodable(error, line_number)
    return plain_line(text, line_number, terms) if text.strip() else None


def _without_mark(raw_line: bytes, start: int) -> bytes:
    """Return a line without a byte order mark. `start` is its first byte in the file."""
    return raw_line if start else unmarked(raw_line)


def _too_long_error(line_number: int) -> LineError:
    message = f"the line has more than {LINE_BYTES_MAX:,} bytes: shorten its prompt"
    return LineError(line_number, None, "line_too_long", message, None)
