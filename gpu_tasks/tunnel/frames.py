"""The messages inside a stream of a tunnel, each behind its length.

The customer opens a stream with an ask. Then `StreamMessage`s go both ways, and a `StreamEnd` is the last one.
Invariant: a message fits into one record, and every text and number has a bound.
"""

from __future__ import annotations

from typing import Annotated

from runtime.encoding.codec import U8, U16, U32, Bounded, Tagged, codec, struct, variant

# Two messages with as much data fit into a Noise record of 65,535 bytes, because each record costs both ends CPU time.
DATA_BYTES_MAX = 31 * 1024
MESSAGE_BYTES_MAX = DATA_BYTES_MAX + 8
"""The limit for an encoded ask or message."""
LENGTH_BYTES = 4
"""The length before each message, little-endian."""
WINDOW_BYTES = 256 * 1024
"""The most unread bytes of a stream in each direction."""
STREAMS_MAX = 16
"""Streams open at once in one tunnel."""
WORDS_MAX = 256
WORD_BYTES_MAX = 4_096
COMMAND_BYTES_MAX = 16 * 1024
"""The limit for all words together, so that the ask fits into one message."""
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


@variant(5)
class Converse:
    """Carry the bytes of a session, from a period of its vouchers on. Containers have no sessions."""

    period: U32


TunnelAsk = Annotated[RunProgram | ReachPort | CopyIn | CopyOut | TakeSecrets | Converse, Tagged("ogpu::TunnelAsk")]
ASK = codec(TunnelAsk)


@struct
class HandedSecret:
    """A file of /secrets."""

    name: Annotated[str, Bounded(SECRET_NAME_BYTES_MAX)]
    value: Annotated[bytes, Bounded(SECRETS_BYTES_MAX)]


HANDED = codec(Annotated[tuple[HandedSecret, ...], Bounded(SECRETS_MAX)])


@variant(0)
class StreamBytes:
    """Bytes of a stream."""

    channel: U8
    data: Annotated[bytes, Bounded(DATA_BYTES_MAX)]


@variant(1)
class InputEnd:
    """The sender sends no more bytes on the stream."""


@variant(2)
class StreamEnd:
    """The stream has ended: with a program's exit code, with 0, or with a problem."""

    code: U32
    problem: Annotated[str, Bounded(PROBLEM_BYTES_MAX)]


@variant(3)
class ResizeTerminal:
    """The terminal window changed its size."""

    rows: U16
    columns: U16


StreamMessage = Annotated[StreamBytes | InputEnd | StreamEnd | ResizeTerminal, Tagged("ogpu::StreamMessage")]
MESSAGE = codec(StreamMessage)
END_BYTES_MAX = LENGTH_BYTES + PROBLEM_BYTES_MAX + 8
"""The most bytes of a `StreamEnd` with its length."""
