"""Signatures of extrinsics: checked once, in worker processes, and remembered.

Invariant: `verify` gives the verdict of `runtime.cryptography.signatures` and nothing else; a remembered
verdict is one that was positive, and its key covers payload, signer and signature, so it can be used for no other
extrinsic. Nonce, era and balance are never remembered: execution checks them again.

A worker is fed ahead: it finds the next claims in its pipe while the node does something else, up to half of each slot
long when it builds.
"""

from __future__ import annotations

import fcntl
import logging
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import msgpack
import trio

from node.pool import verify_worker
from node.pool.verify_worker import LENGTH
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme

REMEMBERED_MAX = 200_000
BATCH_MAX = 256  # claims in one frame
AHEAD_MAX = 32  # frames that a worker has before it: some 8,192 claims, half a second
PIPE_BYTES = 1024 * 1024  # what Linux lets anybody have; its default of 64 KiB holds a single frame
AT_ONCE_HERE = 16  # claims of a dead worker that this process checks before it looks after something else
READ_BYTES = 64 * 1024
RESTART_SECONDS = 0.1
_SCHEME = tuple(bytes((scheme,)) for scheme in Scheme)
_LOG = logging.getLogger(__name__)


class Claim(NamedTuple):
    """`signature` by `signer` over `payload`."""

    scheme: Scheme
    signer: bytes
    payload: bytes
    signature: bytes

    @property
    def key(self) -> bytes:
        """What it is remembered by."""
        # Scheme, signature and signer have fixed lengths, so the parts cannot be cut in two ways.
        return blake2_256(_SCHEME[self.scheme] + self.signature + self.signer + self.payload)


@dataclass(slots=True, eq=False)
class Verdicts:
    """Verdicts that are on their way; `valid` has them once `wait` is over."""

    valid: list[bool]
    missing: int = 0
    _done: trio.Event = field(default_factory=trio.Event)

    async def wait(self) -> list[bool]:
        """Wait until every claim has its verdict."""
        if self.missing:
            await self._done.wait()
        return self.valid

    def note(self, found: Iterable[tuple[int, bool]]) -> None:
        """Some of the missing verdicts, each with its position."""
        for position, valid in found:
            self.valid[position] = valid
            self.missing -= 1
        if not self.missing:
            self._done.set()


class Verifier:
    """The remembered verdicts of one node, and its workers."""

    def __init__(self) -> None:
        self._valid: OrderedDict[bytes, None] = OrderedDict()
        self._send, self._receive = trio.open_memory_channel[_Frame](sys.maxsize)

    @property
    def frames_waiting(self) -> int:
        """How many frames no worker has yet: whoever asks for what is not urgent looks here first."""
        return self._send.statistics().current_buffer_used

    def verify(self, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        """`runtime.cryptography.signatures.VerifySignature`: checked here and now when it is not remembered."""
        claim = Claim(scheme, signer, payload, signature)
        key = claim.key
        if key in self._valid:
            return True
        valid = signatures.verify(scheme, signer, payload, signature)
        if valid:
            self._remember([key])
        return valid

    def begin(self, claims: Sequence[Claim]) -> Verdicts:
        """Have the workers check them; never waits, so the caller bounds how much is under way."""
        verdicts = Verdicts([True] * len(claims))
        known = self._valid
        unknown = [
            _Item(claim, key, position) for position, claim in enumerate(claims) if (key := claim.key) not in known
        ]
        verdicts.missing = len(unknown)
        for start in range(0, len(unknown), BATCH_MAX):
            self._send.send_nowait(_Frame(verdicts, unknown[start : start + BATCH_MAX]))
        return verdicts

    def foresee(self, claims: Sequence[Claim]) -> Verdicts:
        """The same for claims that nobody waits for: false until a worker found them valid, and not remembered."""
        verdicts = Verdicts([False] * len(claims), len(claims))
        items = [_Item(claim, None, position) for position, claim in enumerate(claims)]
        for start in range(0, len(items), BATCH_MAX):
            self._send.send_nowait(_Frame(verdicts, items[start : start + BATCH_MAX]))
        return verdicts

    async def prepare(self, claims: Sequence[Claim]) -> list[bool]:
        """Return the same, and wait for it: this task waits, the loop does not."""
        return await self.begin(claims).wait()

    async def run_worker(self) -> None:
        """Keep one worker process busy; a new one takes over when it dies."""
        while True:
            try:
                await self._drive_worker()
            except* (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
                _LOG.warning("a signature worker died; another one takes over")
            await trio.sleep(RESTART_SECONDS)

    def _remember(self, keys: Iterable[bytes]) -> None:
        self._valid.update(dict.fromkeys(keys))
        while len(self._valid) > REMEMBERED_MAX:
            self._valid.popitem(last=False)

    async def _drive_worker(self) -> None:
        command = [sys.executable, "-m", verify_worker.__name__]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        link = _Link(process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._feed, link)
                while True:
                    for answer in await link.answers():
                        self._settle(link, answer)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
            await self._settle_here(link)
            raise
        finally:
            with trio.CancelScope(shield=True):
                await link.end()

    async def _feed(self, link: _Link) -> None:
        while True:
            await link.slots.acquire()
            frames = [await self._receive.receive()]
            link.under_way.append(frames[0])
            # All at once: while the node imports block after block, this task has one turn between two of them.
            with suppress(trio.WouldBlock):
                while True:
                    link.slots.acquire_nowait()
                    try:
                        frames.append(self._receive.receive_nowait())
                    except trio.WouldBlock:
                        link.slots.release()
                        raise
                    link.under_way.append(frames[-1])
            await link.ask(frames)

    def _settle(self, link: _Link, answer: bytes) -> None:
        frame = link.under_way.popleft()
        link.slots.release()
        found = list(zip(frame.items, map(bool, answer), strict=True))
        self._remember(item.key for item, valid in found if valid and item.key is not None)
        frame.verdicts.note((item.position, valid) for item, valid in found)

    async def _settle_here(self, link: _Link) -> None:
        """Whatever killed the worker, those who wait get their verdict from this process."""
        for frame in link.under_way:
            for count, item in enumerate(frame.items):
                if item.key is None:  # a guess, for which nobody waits
                    continue
                if count % AT_ONCE_HERE == 0:
                    await trio.lowlevel.checkpoint()
                frame.verdicts.note([(item.position, self.verify(*item.claim))])


class _Item(NamedTuple):
    """A claim, what it is remembered by (None: not at all), and whose verdict it is."""

    claim: Claim
    key: bytes | None
    position: int


class _Frame(NamedTuple):
    """Claims on their way through a worker together."""

    verdicts: Verdicts
    items: list[_Item]


class _Link:
    """A worker process, and what it was asked and has not answered; it answers in order."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._to, self._from = process.stdin, process.stdout
        self.under_way: deque[_Frame] = deque()
        self.slots = trio.Semaphore(AHEAD_MAX)
        self._unread = bytearray()
        with suppress(OSError):  # many pipes of one user: the kernel then keeps the default
            fcntl.fcntl(cast("trio.lowlevel.FdStream", self._to).fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    async def ask(self, frames: list[_Frame]) -> None:
        await self._to.send_all(b"".join(map(_packed, frames)))

    async def answers(self) -> list[bytes]:
        """Those that came; raises `EOFError` at the end of the worker."""
        data = await self._from.receive_some(READ_BYTES)
        if not data:
            raise EOFError
        self._unread += data
        answers: list[bytes] = []
        start = 0
        while len(self._unread) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._unread, start)
            end = start + LENGTH.size + length
            if len(self._unread) < end:
                break
            answers.append(bytes(self._unread[start + LENGTH.size : end]))
            start = end
        del self._unread[:start]
        return answers

    async def end(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._to.aclose()
        await self._from.aclose()


def _packed(frame: _Frame) -> bytes:
    batch: bytes = msgpack.packb([item.claim for item in frame.items])
    return LENGTH.pack(len(batch)) + batch
