"""The frames of a tunnel. The customer opens streams, and each stream carries bytes both ways.

Invariant: a frame fits into one record, and every text and number has a bound.
"""

from __future__ import annotations

from typing import Annotated

from runtime.encoding.codec import U8, U16, U32, Bounded, Tagged, codec, struct, variant

# A frame is one Noise record, which has at most 65,535 bytes.
DATA_BYTES_MAX = 32 * 1024
WINDOW_BYTES = 256 * 1024
"""The most unread bytes of a stream in each direction."""
STREAMS_MAX = 16
"""Streams open at once in one tunnel."""
WORDS_MAX = 256
WORD_BYTES_MAX = 4_096
COMMAND_BYTES_MAX = 16 * 1024
"""The limit for all words together, so that the frame fits into one record."""
PATH_BYTES_MAX = 1_024
PROBLEM_BYTES_MAX = 1_024
COPY_BYTES_MAX = 256 * 1024 * 1024
"""The size of one copy, as an archive. Larger data needs several copies."""
TERMINAL_MAX = 10_000
SECRETS_MAX = 64
SECRET_NAME_BYTES_MAX = 128
SECRETS_BYTES_MAX = 64 * 1024
"""The limit for all values together. Secrets are keys and passwords, not data."""
HANDED_BYTES_MAX = SECRETS_BYTES_MAX + SECRETS_MAX * (SECRET_NAME_BYTES_MAX + 8)
"""The limit for the encoded secrets in the stream."""
OUT, ERR = 0, 1
"""The channels of a program's standard output and standard error."""

ProgramWord = Annotated[str, Bounded(WORD_BYTES_MAX)]
Path = Annotated[str, Bounded(PATH_BYTES_MAX)]


@variant(0)
class RunProgram:
    """Run a program beside the container's own, with a terminal or with an input and two outputs."""

    command: Annotated[tuple[ProgramWord, ...], Bounded(WORDS_MAX)]
    is_terminal: bool
    rows: U16
    columns: U16


@variant(1)
class ReachPort:
    """Connect to a port of the container."""

    port: U16


@variant(2)
class CopyIn:
    """Copy files into a folder of the container, as one tar archive."""

    path: Path


@variant(3)
class CopyOut:
    """Copy a file or folder out of the container, as one canonical tar archive."""

    path: Path


@variant(4)
class TakeSecrets:
    """Give secrets to a waiting program. The stream carries `HandedSecrets`, and its end reports the outcome."""


TunnelAsk = Annotated[RunProgram | ReachPort | CopyIn | CopyOut | TakeSecrets, Tagged("ogpu::TunnelAsk")]


@struct
class HandedSecret:
    """A file of /secrets."""

    name: Annotated[str, Bounded(SECRET_NAME_BYTES_MAX)]
    value: Annotated[bytes, Bounded(SECRETS_BYTES_MAX)]


HANDED = codec(Annotated[tuple[HandedSecret, ...], Bounded(SECRETS_MAX)])


@variant(0)
class OpenStream:
    """A new stream. The side that opens it chooses its number."""

    stream: U32
    wanted: TunnelAsk


@variant(1)
class StreamBytes:
    """Bytes of a stream."""

    stream: U32
    channel: U8
    data: Annotated[bytes, Bounded(DATA_BYTES_MAX)]


@variant(2)
class StreamCredit:
    """The receiver has read `count` bytes, so the sender may send as many more."""

    stream: U32
    count: U32


@variant(3)
class StreamInputEnd:
    """The sender of this frame sends no more data on the stream."""

    stream: U32


@variant(4)
class StreamEnd:
    """The stream has ended: with a program's exit code, with 0, or with a problem."""

    stream: U32
    code: U32
    problem: Annotated[str, Bounded(PROBLEM_BYTES_MAX)]


@variant(5)
class ResizeTerminal:
    """The terminal window changed its size."""

    stream: U32
    rows: U16
    columns: U16


TunnelFrame = OpenStream | StreamBytes | StreamCredit | StreamInputEnd | StreamEnd | ResizeTerminal
FRAME = codec(Annotated[TunnelFrame, Tagged("ogpu::TunnelFrame")])
