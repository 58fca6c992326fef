"""A program in the container, on this terminal or on pipes.

Always: the terminal is left as it was found; the program's exit code is this one's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
import termios
import tty
from collections.abc import Iterator, Sequence

from gpu_tasks.tunnel.frames import ERR, RunProgram
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError, TunnelStream

SHELL = ("/bin/sh",)
_PIECE = 32 * 1024


async def run_program(tunnel: Multiplexer, command: Sequence[str], *, is_terminal: bool) -> int:
    """Run it to its end; its exit code. TunnelError."""
    columns, rows = shutil.get_terminal_size()
    stream = await tunnel.open(RunProgram(tuple(command), is_terminal, rows, columns))
    with _raw() if is_terminal else contextlib.nullcontext():
        if is_terminal:
            _follow_size(stream)
        sending = asyncio.create_task(_send_input(stream))
        try:
            while (found := await stream.read()) is not None:
                channel, data = found
                out = sys.stderr.buffer if channel == ERR else sys.stdout.buffer
                out.write(data)
                out.flush()
        finally:
            sending.cancel()
    end = await stream.end
    if end.problem:
        raise TunnelError(end.problem)
    return end.code


async def _send_input(stream: TunnelStream) -> None:
    if _tells_of_more(sys.stdin.fileno()):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_PIECE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while data := await reader.read(_PIECE):
            await stream.write(data)
    else:
        while data := await asyncio.to_thread(sys.stdin.buffer.read, _PIECE):
            await stream.write(data)
    await stream.end_input()


def _tells_of_more(descriptor: int) -> bool:
    """Whether the kernel says when there is more to read: of a terminal, pipe or socket; of no file, nor /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return os.isatty(descriptor) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _follow_size(stream: TunnelStream) -> None:
    loop = asyncio.get_running_loop()

    def changed() -> None:
        columns, rows = shutil.get_terminal_size()
        told = loop.create_task(stream.resize(rows, columns))
        told.add_done_callback(lambda _: None)

    loop.add_signal_handler(signal.SIGWINCH, changed)


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the program."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        os.set_blocking(descriptor, True)
