"""Signature checks of extrinsics: each is done once, in worker processes, and remembered.

Invariant: `verify` returns the verdict of `runtime.cryptography.signatures`. Only positive verdicts are remembered. The
key of a remembered verdict covers payload, signer and signature, so it never applies to another extrinsic. Nonce, era
and balance are never remembered: execution checks them again.

A worker gets claims ahead of time. It finds the next ones in its pipe while the node does something else, such as
building for up to half a slot.
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
from node.process import child_command
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme

REMEMBERED_MAX = 200_000
BATCH_MAX = 256  # claims in one frame
AHEAD_MAX = 32  # frames in advance for a worker: about 8,192 claims, half a second
PIPE_BYTES = 1024 * 1024  # the most that Linux allows any user; its default of 64 KiB holds a single frame
AT_ONCE_HERE = 16  # claims of a dead worker that this process checks before other tasks get a turn
READ_BYTES = 64 * 1024
RESTART_SECONDS = 0.1
_SCHEME = tuple(bytes((scheme,)) for scheme in Scheme)
_LOG = logging.getLogger(__name__)


class Claim(NamedTuple):
    """The claim that `signature` is `signer`'s over `payload`."""

    scheme: Scheme
    signer: bytes
    payload: bytes
    signature: bytes

    @property
    def key(self) -> bytes:
        """The key of its remembered verdict."""
        # Scheme, signature and signer have fixed lengths, so no two claims give the same bytes.
        return blake2_256(_SCHEME[self.scheme] + self.signature + self.signer + self.payload)


@dataclass(slots=True, eq=False)
class Verdicts:
    """Pending verdicts; `valid` holds them after `wait`."""

    valid: list[bool]
    missing: int = 0
    _done: trio.Event = field(default_factory=trio.Event)

    async def wait(self) -> list[bool]:
        """Wait until every claim has its verdict."""
        if self.missing:
            await self._done.wait()
        return self.valid

    def note(self, new_verdicts: Iterable[tuple[int, bool]]) -> None:
        """Store some of the missing verdicts, each with its position."""
        for position, is_valid in new_verdicts:
            self.valid[position] = is_valid
            self.missing -= 1
        if not self.missing:
            self._done.set()


class Verifier:
    """The remembered verdicts of one node, and its workers."""

    def __init__(self) -> None:
        self._known_verdicts: OrderedDict[bytes, None] = OrderedDict()
        self._send, self._receive = trio.open_memory_channel[_Frame](sys.maxsize)

    @property
    def frames_waiting(self) -> int:
        """The number of frames that wait for a worker; callers with work that is not urgent check it first."""
        return self._send.statistics().current_buffer_used

    def verify(self, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        """Check a signature at once unless its verdict is remembered.

        The form is `runtime.cryptography.signatures.VerifySignature`.
        """
        claim = Claim(scheme, signer, payload, signature)
        key = claim.key
        if key in self._known_verdicts:
            return True
        is_valid = signatures.verify(scheme, signer, payload, signature)
        if is_valid:
            self._remember([key])
        return is_valid

    def begin(self, claims: Sequence[Claim]) -> Verdicts:
        """Send claims to the workers without waiting; the caller limits the number of pending claims."""
        verdicts = Verdicts([True] * len(claims))
        known_verdicts = self._known_verdicts
        unknown_items = [
            _Item(claim, key, position)
            for position, claim in enumerate(claims)
            if (key := claim.key) not in known_verdicts
        ]
        verdicts.missing = len(unknown_items)
        for start in range(0, len(unknown_items), BATCH_MAX):
            self._send.send_nowait(_Frame(verdicts, unknown_items[start : start + BATCH_MAX]))
        return verdicts

    def foresee(self, claims: Sequence[Claim]) -> Verdicts:
        """Send claims in advance: their verdicts are False until a worker confirms them, and never remembered."""
        verdicts = Verdicts([False] * len(claims), len(claims))
        items = [_Item(claim, None, position) for position, claim in enumerate(claims)]
        for start in range(0, len(items), BATCH_MAX):
            self._send.send_nowait(_Frame(verdicts, items[start : start + BATCH_MAX]))
        return verdicts

    async def prepare(self, signature_claims: Sequence[Claim]) -> list[bool]:
        """Send claims to the workers and wait for their verdicts; only this task waits."""
        return await self.begin(signature_claims).wait()

    async def run_worker(self) -> None:
        """Keep one worker process busy, and start another when it dies."""
        while True:
            try:
                await self._drive_worker()
            except* (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
                _LOG.warning("a signature worker died: another replaces it")
            await trio.sleep(RESTART_SECONDS)

    def _remember(self, keys: Iterable[bytes]) -> None:
        self._known_verdicts.update(dict.fromkeys(keys))
        while len(self._known_verdicts) > REMEMBERED_MAX:
            self._known_verdicts.popitem(last=False)

    async def _drive_worker(self) -> None:
        command = child_command(verify_worker.__name__)
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        link = _Link(process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._feed_worker, link)
                while True:
                    for answer in await link.answers():
                        self._settle_answer(link, answer)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
            await self._settle_here(link)
            raise
        finally:
            with trio.CancelScope(shield=True):
                await link.end()

    async def _feed_worker(self, link: _Link) -> None:
        while True:
            await link.slots.acquire()
            queued_frames = [await self._receive.receive()]
            link.under_way.append(queued_frames[0])
            # All at once: while the node imports blocks in sequence, this task has one turn between two of them.
            with suppress(trio.WouldBlock):
                while True:
                    link.slots.acquire_nowait()
                    try:
                        queued_frames.append(self._receive.receive_nowait())
                    except trio.WouldBlock:
                        link.slots.release()
                        raise
                    link.under_way.append(queued_frames[-1])
            await link.ask(queued_frames)

    def _settle_answer(self, link: _Link, answer: bytes) -> None:
        request_frame = link.under_way.popleft()
        link.slots.release()
        new_verdicts = list(zip(request_frame.frame_items, map(bool, answer), strict=True))
        self._remember(item.key for item, is_valid in new_verdicts if is_valid and item.key is not None)
        request_frame.verdicts.note((item.position, is_valid) for item, is_valid in new_verdicts)

    async def _settle_here(self, link: _Link) -> None:
        """Check a dead worker's claims in this process, so that every waiting caller gets its verdict."""
        for request_frame in link.under_way:
            for item_count, item in enumerate(request_frame.frame_items):
                if item.key is None:  # a guess without a waiting caller
                    continue
                if item_count % AT_ONCE_HERE == 0:
                    await trio.lowlevel.checkpoint()
                request_frame.verdicts.note([(item.position, self.verify(*item.claim))])


class _Item(NamedTuple):
    """A claim, the key of its remembered verdict (None: never remembered), and its position in `Verdicts`."""

    claim: Claim
    key: bytes | None
    position: int


class _Frame(NamedTuple):
    """Claims that go through a worker together."""

    verdicts: Verdicts
    frame_items: list[_Item]


class _Link:
    """A worker process, and its unanswered frames; the worker answers in order."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._worker_process = process
        self._request_stream, self._answer_stream = process.stdin, process.stdout
        self.under_way: deque[_Frame] = deque()
        self.slots = trio.Semaphore(AHEAD_MAX)
        self._unread_bytes = bytearray()
        with suppress(OSError):  # fails if the user has many pipes: the kernel then keeps the default size
            fcntl.fcntl(cast("trio.lowlevel.FdStream", self._request_stream).fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    async def ask(self, queued_frames: list[_Frame]) -> None:
        await self._request_stream.send_all(b"".join(map(_packed_frame, queued_frames)))

    async def answers(self) -> list[bytes]:
        """Return the next answers. Raise `EOFError` at the end of the worker."""
        data = await self._answer_stream.receive_some(READ_BYTES)
        if not data:
            raise EOFError
        self._unread_bytes += data
        answers: list[bytes] = []
        answer_start = 0
        while len(self._unread_bytes) - answer_start >= LENGTH.size:
            (answer_length,) = LENGTH.unpack_from(self._unread_bytes, answer_start)
            answer_end = answer_start + LENGTH.size + answer_length
            if len(self._unread_bytes) < answer_end:
                break
            answers.append(bytes(self._unread_bytes[answer_start + LENGTH.size : answer_end]))
            answer_start = answer_end
        del self._unread_bytes[:answer_start]
        return answers

    async def end(self) -> None:
        self._worker_process.kill()
        await self._worker_process.wait()
        await self._request_stream.aclose()
        await self._answer_stream.aclose()


def _packed_frame(request_frame: _Frame) -> bytes:
    packed_batch: bytes = msgpack.packb([item.claim for item in request_frame.frame_items])
    return LENGTH.pack(len(packed_batch)) + packed_batch
