"""multistream-select 1.0: the negotiation of a protocol between the two ends of a libp2p byte stream.

Pure, without I/O: bytes in, bytes out, because the same exchange runs over TCP (for Noise), over Noise (for yamux) and
over each yamux stream. Invariant: lines are short and few, and any other input is a `MultistreamError`. Format:
https://github.com/multiformats/multistream-select (varint length, line, newline).
"""

from typing import Final

MULTISTREAM: Final = "/multistream/1.0.0"
NOT_AVAILABLE: Final = "na"
LIST: Final = "ls"
MAX_LINE_BYTES: Final = 256
MAX_LINES: Final = 16
"""The most questions on one stream before it is refused. Real clients ask one to five."""
_LONGEST_LENGTH_PREFIX: Final = 2


class MultistreamError(Exception):
    """The other end does not follow multistream-select, or offers no protocol of this node."""


def _varint(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def encode_line(line_text: str) -> bytes:
    """Return one negotiation line with its length prefix."""
    line_bytes = line_text.encode() + b"\n"
    return _varint(len(line_bytes)) + line_bytes


_GREETING: Final = encode_line(MULTISTREAM)


class Responder:
    """The answering side of one stream, until a protocol of `protocols` is chosen. Send `opening` first."""

    opening: Final = _GREETING

    def __init__(self, protocols: tuple[str, ...]) -> None:
        self._protocols = protocols
        self._line_reader = _LineReader()
        self._has_greeted = False
        self.selected: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to send back; set `selected` on agreement, after which `leftover` is the protocol's.

        Raise `MultistreamError` if the other end breaks the format.
        """
        reply = b""
        self._line_reader.add(data, greeted=self._has_greeted)
        while self.selected is None and (line := self._line_reader.next()) is not None:
            reply += self._answer_line(line)
        return reply

    def _answer_line(self, line: str) -> bytes:
        if not self._has_greeted:
            self._has_greeted = True
            return b""
        if line == LIST:
            listed_protocols = b"".join(encode_line(protocol) for protocol in self._protocols) + b"\n"
            return _varint(len(listed_protocols)) + listed_protocols
        if line in self._protocols:
            self.selected = line
            return encode_line(line)
        return encode_line(NOT_AVAILABLE)

    @property
    def leftover(self) -> bytes:
        """The bytes after the negotiation."""
        return self._line_reader.rest


class Initiator:
    """The proposing side of one stream, for one protocol. Send `opening`, then feed the answers until `selected`."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._line_reader = _LineReader()
        self._has_greeted = False
        self.selected: str | None = None
        self.opening = _GREETING + encode_line(protocol)

    def feed(self, data: bytes) -> bytes:
        """Return no bytes, ever; set `selected` on agreement. Raise `MultistreamError` if the other end declines."""
        self._line_reader.add(data, greeted=self._has_greeted)
        while self.selected is None and (line := self._line_reader.next()) is not None:
            if not self._has_greeted and line == MULTISTREAM:
                self._has_greeted = True
            elif self._has_greeted and line == self._protocol:
                self.selected = line
            else:
                raise MultistreamError(f"{self._protocol} was declined")
        return b""

    @property
    def leftover(self) -> bytes:
        """The bytes after the negotiation."""
        return self._line_reader.rest


class _LineReader:
    def __init__(self) -> None:
        self._buffer = b""
        self.count = 0

    def add(self, data: bytes, *, greeted: bool) -> None:
        """Add bytes; the first byte that differs from the greeting already shows another protocol."""
        self._buffer += data
        if not greeted and not _GREETING.startswith(self._buffer[: len(_GREETING)]):
            raise MultistreamError("not multistream-select")

    def next(self) -> str | None:
        """Return the next whole line; None while it is incomplete."""
        length_and_size = _read_varint(self._buffer)
        if length_and_size is None:
            return None
        line_length, prefix_length = length_and_size
        if not 0 < line_length <= MAX_LINE_BYTES:
            raise MultistreamError("negotiation line too long or empty")
        if len(self._buffer) < prefix_length + line_length:
            return None
        line = self._buffer[prefix_length : prefix_length + line_length]
        self._buffer = self._buffer[prefix_length + line_length :]
        self.count += 1
        # Without this limit, as in the library, "ls" could be asked without end.
        if self.count > MAX_LINES:
            raise MultistreamError("too many negotiation lines")
        if line[-1:] != b"\n" or not line.isascii():
            raise MultistreamError("malformed negotiation line")
        return line[:-1].decode("ascii")

    @property
    def rest(self) -> bytes:
        return self._buffer


def _read_varint(data: bytes) -> tuple[int, int] | None:
    """Return (value, bytes used), or None while incomplete. Raise `MultistreamError` if it is too long for a line."""
    value = 0
    for index, byte in enumerate(data[:_LONGEST_LENGTH_PREFIX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    # Without this limit, as in the library, a line of any length would be read into memory.
    if len(data) >= _LONGEST_LENGTH_PREFIX:
        raise MultistreamError("negotiation line too long")
    return None
