"""From bytes that somebody sent to a place in the queue, and what becomes of the queue when the chain moves.

What always holds: nothing enters the queue before it was decoded, found valid on the preferred tip's state, and its
signature checked, in this order, so that the cheap refusals come first; what failed is banned for a while.  Signatures
are checked by the workers, many at once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from node.clock import Clock
from node.errors import NodeError
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.pool.refusal import INVALID, NO_ROOM, UNDECODABLE, PoolRefusalError
from node.pool.relay import Relay
from node.pool.transaction_queue import PooledExtrinsic, Settled, TransactionQueue
from node.pool.verifier import Claim, Verifier
from runtime.blocks.extrinsic import Extrinsic, decode_extrinsic
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from runtime.execution.pool_validation import TransactionValidator
from runtime.frame.errors import InvalidTransaction
from runtime.pallets.system import System

WAITING_MAX = 4_096
BATCH_MAX = 256
WATCHED_MAX = 50_000
REVALIDATED_PER_BLOCK = 128
ACCOUNT_BYTES = 32
_LOG = logging.getLogger(__name__)

OnStatus: TypeAlias = Callable[[bytes, str, "bytes | None"], None]
"""(extrinsic hash, status, block id or None): what happened to an extrinsic that somebody watches."""


@dataclass(slots=True, eq=False)
class _Arrival:
    """An extrinsic on its way into the pool."""

    raw: bytes
    peer: str | None
    extrinsic_hash: bytes
    refusal: PoolRefusalError | None = None
    done: trio.Event = field(default_factory=trio.Event)


class TransactionPool(Listener):
    """The pool of one node, over the state of the preferred tip; `queue` holds what is in it."""

    def __init__(self, *, chain: Chain, verifier: Verifier, clock: Clock, relay: Relay, on_status: OnStatus) -> None:
        self.queue = TransactionQueue()
        self._chain = chain
        self._verifier = verifier
        self._clock = clock
        self._relay = relay
        self._on_status = on_status
        self._set_tip(chain.final)
        self._best = chain.final
        self._turn = 0  # of the revalidation: a position in the queue
        self._told: dict[bytes, None] = {}  # blocks above the final one of which `in_block` was told
        self._decoded: dict[bytes, Extrinsic] = {}
        self._waiting: set[bytes] = set()
        self._watched: OrderedDict[bytes, None] = OrderedDict()
        self._account = chain.runtime.item(System.account)
        self._send, self._receive = trio.open_memory_channel[_Arrival](WAITING_MAX)

    # --- in

    async def submit(self, raw: bytes) -> bytes:
        """Take an extrinsic of this node's user -> its hash; raises `PoolRefusalError`.

        Its status is told from now on.
        """
        arrival = _Arrival(raw, None, blake2_256(raw))
        self._watched[arrival.extrinsic_hash] = None
        if len(self._watched) > WATCHED_MAX:
            self._watched.popitem(last=False)
        await self._send.send(arrival)
        await arrival.done.wait()
        if arrival.refusal is not None:
            raise arrival.refusal
        return arrival.extrinsic_hash

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take an extrinsic that a peer sent, unless it was judged already."""
        if kind is FrameKind.TX:
            extrinsic_hash = blake2_256(payload)
            if not self._relay.has_passed_on(extrinsic_hash):
                self.offer(payload, peer, extrinsic_hash)

    def offer(self, raw: bytes, peer: str, extrinsic_hash: bytes) -> None:
        """Take an extrinsic that a peer sent; dropped when too many wait."""
        # Every peer brings the same one within moments: it is judged once.
        if extrinsic_hash in self._waiting:
            return
        try:
            self._send.send_nowait(_Arrival(raw, peer, extrinsic_hash))
        except trio.WouldBlock:
            _LOG.debug("an extrinsic is dropped: %d wait already", WAITING_MAX)
        else:
            self._waiting.add(extrinsic_hash)

    async def run(self) -> None:
        """Admit what arrives, batch after batch."""
        while True:
            batch = [await self._receive.receive()]
            while len(batch) < BATCH_MAX:
                try:
                    batch.append(self._receive.receive_nowait())
                except trio.WouldBlock:
                    break
            await self._admit(batch)
            await trio.lowlevel.checkpoint()

    async def _admit(self, batch: list[_Arrival]) -> None:
        valid: list[tuple[_Arrival, PooledExtrinsic, Extrinsic, Claim]] = []
        for arrival in batch:
            try:
                valid.append((arrival, *self._validate(arrival.raw, arrival.extrinsic_hash)))
            except PoolRefusalError as refusal:
                arrival.refusal = refusal
        verdicts = await self._verifier.prepare([claim for *_, claim in valid])
        for (arrival, candidate, extrinsic, _), is_signed in zip(valid, verdicts, strict=True):
            try:
                self._enter(arrival, candidate, extrinsic, is_signed=is_signed)
            except PoolRefusalError as refusal:
                arrival.refusal = refusal
        for arrival in batch:
            self._waiting.discard(arrival.extrinsic_hash)
            arrival.done.set()

    def _validate(self, raw: bytes, extrinsic_hash: bytes) -> tuple[PooledExtrinsic, Extrinsic, Claim]:
        """Everything but the signature, which is given back as a claim."""
        self.queue.refuse_known(extrinsic_hash, self._clock.now_ms() / 1000)
        claims: list[Claim] = []

        def note(scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
            claims.append(Claim(scheme, signer, payload, signature))
            return True

        try:
            extrinsic = decode_extrinsic(self._chain.runtime, raw)
            validity = self._validator.validate(extrinsic, note)
        except DecodeError as error:
            raise PoolRefusalError(UNDECODABLE, "Extrinsic has invalid format", str(error)) from error
        except InvalidTransaction as error:
            self.queue.ban(extrinsic_hash, self._clock.now_ms() / 1000)
            raise PoolRefusalError(INVALID, "Invalid Transaction", str(error)) from error
        except NodeError:  # the database, not the extrinsic
            raise
        except Exception as error:
            # A fault of our own, whatever it is, ends here: the task that admits serves everybody.
            _LOG.exception("extrinsic 0x%s breaks this node: banned", extrinsic_hash.hex())
            self.queue.ban(extrinsic_hash, self._clock.now_ms() / 1000)
            raise PoolRefusalError(INVALID, "Invalid Transaction", "it cannot be judged here") from error
        (claim,) = claims
        authorization = extrinsic.authorization
        assert authorization is not None
        candidate = PooledExtrinsic(
            extrinsic_hash,
            raw,
            authorization.signer,
            authorization.extra.nonce,
            validity.priority,
            self._tip.facts.height + validity.longevity,
        )
        return candidate, extrinsic, claim

    def _enter(self, arrival: _Arrival, candidate: PooledExtrinsic, extrinsic: Extrinsic, *, is_signed: bool) -> None:
        if not is_signed:
            self.queue.ban(candidate.extrinsic_hash, self._clock.now_ms() / 1000)
            raise PoolRefusalError(INVALID, "Invalid Transaction", "bad_proof")
        self.queue.refuse_known(candidate.extrinsic_hash, self._clock.now_ms() / 1000)
        admitted = self.queue.add(candidate, self._nonce(candidate.sender))
        self._decoded[candidate.extrinsic_hash] = extrinsic
        self._forget(admitted.dropped, "dropped")
        if admitted.usurped is not None:
            self._decoded.pop(admitted.usurped, None)
            self._tell(admitted.usurped, "usurped", candidate.extrinsic_hash)
        if candidate.extrinsic_hash in admitted.dropped:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "the pool is full of extrinsics that pay more")
        self._tell(candidate.extrinsic_hash, admitted.status)
        for extrinsic_hash in admitted.promoted:
            self._tell(extrinsic_hash, "ready")
        self._relay.pass_on(candidate.extrinsic_hash, candidate.raw, arrival.peer)

    # --- out

    def ready(self) -> Iterator[PooledExtrinsic]:
        """What an author may take, in order."""
        return self.queue.ready()

    def decoded(self, extrinsic_hash: bytes) -> Extrinsic:
        """An extrinsic in the pool, decoded."""
        return self._decoded[extrinsic_hash]

    def pending(self) -> list[bytes]:
        """What is not in the accepted block's chain yet.

        In blocks above it, then the pool, ready ones in the order of a block.
        """
        _, above = self._chain.path(self._best.facts.id, self._tip.facts.id)
        in_blocks = [raw for block in above for raw in block.extrinsics if self._is_signed(raw)]
        ready = [candidate.raw for candidate in self.queue.ready()]
        future = [candidate.raw for candidate in self.queue.future()]
        return in_blocks + ready + future

    def drop_invalid(self, extrinsic_hash: bytes, reason: str) -> None:
        """An author found it invalid, or it broke this node: out, and banned."""
        _LOG.info("extrinsic 0x%s leaves the pool: %s", extrinsic_hash.hex(), reason)
        self.queue.ban(extrinsic_hash, self._clock.now_ms() / 1000)
        self._decoded.pop(extrinsic_hash, None)
        self._follow(self.queue.remove(extrinsic_hash), "invalid")

    # --- the chain moves

    def on_tip(self, block: bytes) -> None:
        """Another block is the preferred tip: used extrinsics leave, those of reverted blocks come back."""
        tip = self._chain[block]
        back, forth = self._chain.path(self._tip.facts.id, block)
        self._set_tip(tip)
        included = {blake2_256(raw) for executed in forth for raw in executed.extrinsics}
        reverted = [raw for executed in reversed(back) for raw in executed.extrinsics]
        nonces = {account: self._nonce(account) for account in self._moved_accounts(back + forth)}
        self._follow(self.queue.settle(nonces, tip.facts.height + 1), "dropped")
        self._decoded = {known: extrinsic for known, extrinsic in self._decoded.items() if known in self.queue}
        self._take_back([raw for raw in reverted if blake2_256(raw) not in included])
        self._revalidate()

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """Another block is the accepted one, whose state clients read: what it took in is `in_block` from now on."""
        del reverted
        accepted = self._chain.get(block)
        if accepted is None:
            return
        back, forth = self._chain.path(self._best.facts.id, block)
        self._best = accepted
        for executed in back:
            # Only of a block of which `in_block` was told can it be taken back.
            if executed.facts.id in self._told:
                del self._told[executed.facts.id]
                self._tell_all(executed, "retracted")
        for executed in forth:
            self._tell_in_block(executed)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Blocks became final, whether they were accepted before or not."""
        for executed in blocks:
            self._tell_in_block(executed)
            self._tell_all(executed, "finalized", last=True)
            del self._told[executed.facts.id]
        last = blocks[-1]
        if self._best.facts.height <= last.facts.height:
            self._best = last
            self._told.clear()

    # --- inside

    def _set_tip(self, tip: ExecutedBlock) -> None:
        self._tip = tip
        self._validator = TransactionValidator(self._chain.runtime, tip.state, tip.facts.id)

    def _take_back(self, raws: list[bytes]) -> None:
        """Extrinsics of reverted blocks; their signatures are known to hold."""
        for raw in raws:
            extrinsic_hash = blake2_256(raw)
            try:
                candidate, extrinsic, _ = self._validate(raw, extrinsic_hash)
                self._enter(_Arrival(raw, None, extrinsic_hash), candidate, extrinsic, is_signed=True)
            except PoolRefusalError as refusal:
                _LOG.debug("an extrinsic of a reverted block is not taken back: %s", refusal)

    def _revalidate(self) -> None:
        """Judge some of the queue again, those whose turn it is: what became unpayable must not wait for an author."""
        hashes = self.queue.hashes()
        if self._turn >= len(hashes):
            self._turn = 0
        for extrinsic_hash in hashes[self._turn : self._turn + REVALIDATED_PER_BLOCK]:
            try:
                self._validator.validate(self._decoded[extrinsic_hash], lambda *_: True)
            except InvalidTransaction as error:
                self.drop_invalid(extrinsic_hash, str(error))
        self._turn += REVALIDATED_PER_BLOCK

    def _moved_accounts(self, blocks: list[ExecutedBlock]) -> dict[bytes, None]:
        prefix = self._account.prefix
        keys = (key for executed in blocks for key in executed.changes if key.startswith(prefix))
        return dict.fromkeys(key[-ACCOUNT_BYTES:] for key in keys)

    def _nonce(self, account: bytes) -> int:
        raw = self._tip.state.get(self._account.key(account))
        return 0 if raw is None else int(self._account.decode(raw).nonce)

    def _follow(self, settled: Settled, why_dropped: str) -> None:
        self._forget(settled.dropped, why_dropped)
        for extrinsic_hash in settled.promoted:
            self._tell(extrinsic_hash, "ready")
        for extrinsic_hash in settled.demoted:
            self._tell(extrinsic_hash, "future")

    def _forget(self, hashes: Iterable[bytes], why: str) -> None:
        for extrinsic_hash in hashes:
            self._decoded.pop(extrinsic_hash, None)
            self._tell(extrinsic_hash, why, last=True)

    def _is_signed(self, raw: bytes) -> bool:
        return decode_extrinsic(self._chain.runtime, raw).authorization is not None

    def _tell_in_block(self, block: ExecutedBlock) -> None:
        if block.facts.id not in self._told:
            self._told[block.facts.id] = None
            self._tell_all(block, "in_block")

    def _tell_all(self, block: ExecutedBlock, status: str, *, last: bool = False) -> None:
        for raw in block.extrinsics:
            self._tell(blake2_256(raw), status, block.facts.id, last=last)

    def _tell(self, extrinsic_hash: bytes, status: str, block: bytes | None = None, *, last: bool = False) -> None:
        if extrinsic_hash in self._watched:
            self._on_status(extrinsic_hash, status, block)
            if last:
                del self._watched[extrinsic_hash]
