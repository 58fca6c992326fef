"""Signatures of extrinsics: checked once, in worker processes, and remembered.

What always holds: `verify` gives the verdict of `runtime.cryptography.signatures` and nothing else; a remembered
verdict is one that was positive, and its key covers payload, signer and signature, so it can be used for no other
extrinsic.  Nonce, era and balance are never remembered: execution checks them again.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import trio

from node.pool import verify_worker
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

REMEMBERED_MAX = 200_000
BATCH_MAX = 256
WAITING_MAX = 20_000
RESTART_SECONDS = 0.1
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
        parts = (bytes([self.scheme]), len(self.payload).to_bytes(4, "big"), self.payload, self.signer, self.signature)
        return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


class Verifier:
    """The remembered verdicts of one node, and its workers."""

    def __init__(self) -> None:
        self._valid: OrderedDict[bytes, None] = OrderedDict()
        self._send, self._receive = trio.open_memory_channel[_Job](WAITING_MAX)

    def verify(self, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        """`runtime.cryptography.signatures.VerifySignature`: checked here and now when it is not remembered."""
        claim = Claim(scheme, signer, payload, signature)
        key = claim.key
        if key in self._valid:
            return True
        valid = signatures.verify(scheme, signer, payload, signature)
        if valid:
            self._remember(key)
        return valid

    async def prepare(self, claims: Sequence[Claim]) -> list[bool]:
        """The same for many, in the workers: this task waits, the loop does not."""
        jobs = [_Job(claim, claim.key) for claim in claims]
        for job in jobs:
            if job.key in self._valid:
                job.finish(valid=True)
            else:
                await self._send.send(job)
        for job in jobs:
            await job.done.wait()
        return [job.valid for job in jobs]

    async def run_worker(self) -> None:
        """Keep one worker process busy; a new one takes over when it dies."""
        while True:
            try:
                await self._drive_worker()
            except (trio.BrokenResourceError, EOFError):
                _LOG.warning("a signature worker died; another one takes over")
            await trio.sleep(RESTART_SECONDS)

    def _remember(self, key: bytes) -> None:
        self._valid[key] = None
        if len(self._valid) > REMEMBERED_MAX:
            self._valid.popitem(last=False)

    async def _drive_worker(self) -> None:
        command = [sys.executable, "-m", verify_worker.__name__]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            while True:
                jobs = [await self._receive.receive()]
                while len(jobs) < BATCH_MAX:
                    try:
                        jobs.append(self._receive.receive_nowait())
                    except trio.WouldBlock:
                        break
                await self._settle(process, jobs)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        await stream.aclose()

    async def _settle(self, process: trio.Process, jobs: list[_Job]) -> None:
        """Give every job its verdict, also when the worker dies over it."""
        try:
            answer = await _ask(process, jobs)
        except (trio.BrokenResourceError, EOFError):
            # Whatever killed the worker, those who wait get their verdict from this process.
            for job in jobs:
                job.finish(valid=self.verify(*job.claim))
            raise
        for job, verdict in zip(jobs, answer, strict=True):
            if verdict:
                self._remember(job.key)
            job.finish(valid=bool(verdict))


class _Job:
    """One claim on its way through a worker."""

    def __init__(self, claim: Claim, key: bytes) -> None:
        self.claim = claim
        self.key = key
        self.valid = False
        self.done = trio.Event()

    def finish(self, *, valid: bool) -> None:
        self.valid = valid
        self.done.set()


async def _ask(process: trio.Process, jobs: list[_Job]) -> bytes:
    claims = [job.claim for job in jobs]
    batch = msgpack.packb([[int(claim.scheme), claim.signer, claim.payload, claim.signature] for claim in claims])
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.send_all(verify_worker.LENGTH.pack(len(batch)) + batch)
    header = await _exactly(process.stdout, verify_worker.LENGTH.size)
    return await _exactly(process.stdout, verify_worker.LENGTH.unpack(header)[0])


async def _exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
