"""What is said over a tunnel: streams are opened by the customer, and each carries bytes both ways.

Always: a frame fits into one record; every text and number has a bound.
"""

from __future__ import annotations

from typing import Annotated

from runtime.encoding.codec import U8, U16, U32, Bounded, Tagged, codec, struct, variant

DATA_BYTES_MAX = 32 * 1024
WINDOW_BYTES = 256 * 1024
"""So much of a stream may be under way and unread, each way."""
STREAMS_MAX = 16
"""Open at once in one tunnel."""
WORDS_MAX = 256
WORD_BYTES_MAX = 4_096
COMMAND_BYTES_MAX = 16 * 1024
"""Of all words together: a frame is one record."""
PATH_BYTES_MAX = 1_024
PROBLEM_BYTES_MAX = 1_024
COPY_BYTES_MAX = 256 * 1024 * 1024
"""Of one copy, as an archive; more goes in several."""
TERMINAL_MAX = 10_000
SECRETS_MAX = 64
SECRET_NAME_BYTES_MAX = 128
SECRETS_BYTES_MAX = 64 * 1024
"""Of all values together: keys and passwords, not data."""
HANDED_BYTES_MAX = SECRETS_BYTES_MAX + SECRETS_MAX * (SECRET_NAME_BYTES_MAX + 8)
"""Of them as the stream carries them."""
OUT, ERR = 0, 1
"""Channels of data: of a program's two outputs."""

ProgramWord = Annotated[str, Bounded(WORD_BYTES_MAX)]
Path = Annotated[str, Bounded(PATH_BYTES_MAX)]


@variant(0)
class RunProgram:
    """Run a program beside the container's own; on a terminal, or with input and two outputs."""

    command: Annotated[tuple[ProgramWord, ...], Bounded(WORDS_MAX)]
    is_terminal: bool
    rows: U16
    columns: U16


@variant(1)
class ReachPort:
    """A connection to a port of the container."""

    port: U16


@variant(2)
class CopyIn:
    """Files are put under a folder of the container, as one tar archive."""

    path: Path


@variant(3)
class CopyOut:
    """A file or a folder of the container, as one canonical tar archive."""

    path: Path


@variant(4)
class TakeSecrets:
    """What a program that waits is to be given: the stream carries `HandedSecrets`, and its end says whether it was."""


TunnelAsk = Annotated[RunProgram | ReachPort | CopyIn | CopyOut | TakeSecrets, Tagged("ogpu::TunnelAsk")]


@struct
class HandedSecret:
    """A file of /secrets."""

    name: Annotated[str, Bounded(SECRET_NAME_BYTES_MAX)]
    value: Annotated[bytes, Bounded(SECRETS_BYTES_MAX)]


HANDED = codec(Annotated[tuple[HandedSecret, ...], Bounded(SECRETS_MAX)])


@variant(0)
class OpenStream:
    """A new stream, numbered by who opens it."""

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
    """So many bytes were read: as many more may come."""

    stream: U32
    count: U32


@variant(3)
class StreamInputEnd:
    """Who says it sends no more data on the stream."""

    stream: U32


@variant(4)
class StreamEnd:
    """The stream is over: with a program's exit code, 0 else; or with a problem."""

    stream: U32
    code: U32
    problem: Annotated[str, Bounded(PROBLEM_BYTES_MAX)]


@variant(5)
class ResizeTerminal:
    """The window has another size now."""

    stream: U32
    rows: U16
    columns: U16


TunnelFrame = OpenStream | StreamBytes | StreamCredit | StreamInputEnd | StreamEnd | ResizeTerminal
FRAME = codec(Annotated[TunnelFrame, Tagged("ogpu::TunnelFrame")])
