"""The admission of extrinsics to the queue, and the queue's changes when the chain moves.

Invariant: an extrinsic enters the queue after checks in this order: signer, nonce and least fee on the preferred tip's
state, then the signature, then the call. Cheap refusals come first, and no call is decoded before its signature holds.
An extrinsic that fails is banned for a while. Only ready extrinsics are passed on.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import TypeAlias

from node.clock import Clock
from node.errors import NodeError
from node.ledger.chain import Chain, ExecutedBlock, Foreseen
from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.p2p.meter import Seconds
from node.pool.arrivals import Arrival
from node.pool.bans import BanList, brought_by
from node.pool.entrance import BAD_PROOF, Entrance, Vetted
from node.pool.manners import Blame
from node.pool.pooled import READY, PooledExtrinsic, Settled
from node.pool.refusal import INVALID, NO_ROOM, UNDECODABLE, PoolRefusalError, Refusal
from node.pool.relay import Relay
from node.pool.transaction_queue import TransactionQueue
from node.pool.verifier import Claim, Verdicts, Verifier
from runtime.blocks.extrinsic import Authorization, Envelope, Extrinsic, decode_extrinsic, open_envelope
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, VerifySignature
from runtime.encoding.codec import DecodeError
from runtime.encoding.marks import record
from runtime.execution.pool_validation import TransactionValidator, Validity, Vouched
from runtime.frame.errors import InvalidTransaction
from runtime.frame.fees import highest_priority
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System

WATCHED_MAX = 50_000
REVALIDATED_PER_BLOCK = 128
ACCOUNT_BYTES = 32
FORESEEN_FRAMES_MAX = 64  # beyond this the workers are too far behind for guesses: about 16,000 signatures, a second
LONG_BYTES = 4_096  # a call of this length takes about 2 ms to decode
REVERTED = "a reverted block"  # a source in place of a peer
_LOG = logging.getLogger(__name__)

OnStatus: TypeAlias = Callable[[bytes, str, "bytes | None"], None]
"""(extrinsic hash, status, block id or None): a change in the status of an extrinsic that a client watches."""


@record
class Held:
    """An extrinsic in the pool, decoded, and the claim that was checked at its admission."""

    extrinsic: Extrinsic
    signature_claim: Claim
    is_long: bool = False
    """True if decoding it again would cost milliseconds."""

    def verified_or(self, verify: VerifySignature) -> VerifySignature:
        """Return `verify`, bypassed for the claim that was checked at admission."""
        return partial(self._verify_signature, verify)

    def _verify_signature(
        self, verify: VerifySignature, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes
    ) -> bool:
        # On another fork the block of birth differs, and the signed message with it.
        return (scheme, signer, payload, signature) == self.signature_claim or verify(
            scheme, signer, payload, signature
        )


# Blocks that are about to be executed: results about their extrinsics, computed in advance.
# Invariant: execution gets the verdicts and values that it would compute itself. It computes results itself that are
# missing or guessed wrongly, such as for an extrinsic with a birth block that this node does not know.
def foresee(raws: Iterable[bytes], payload: Callable[[Authorization], bytes], verifier: Verifier) -> Foreseen:
    """Open the extrinsics of a block, and have the workers check their signatures."""
    envelopes: dict[bytes, Envelope] = {}
    claims: list[Claim] = []
    for raw in raws:
        try:
            envelope = open_envelope(raw)
            authorization = envelope.authorization
            message = payload(authorization)
        except (DecodeError, InvalidTransaction):  # an inherent, junk, or an unknown birth: execution judges it
            continue
        envelopes[raw] = envelope
        claims.append(
            Claim(authorization.signature.scheme, authorization.signer, message, authorization.signature.signature)
        )
    verdicts = verifier.foresee(claims)
    foreseen_signatures = _Signatures(claims, verdicts, verifier.verify)
    return Foreseen(foreseen_signatures.verify, _Opened(envelopes).decode, verdicts)


class _Opened:
    """Extrinsics with a decoded envelope."""

    def __init__(self, envelopes: dict[bytes, Envelope]) -> None:
        self._envelopes = envelopes

    def decode(self, runtime: Runtime, raw: bytes) -> Extrinsic:
        envelope = self._envelopes.get(raw)
        return decode_extrinsic(runtime, raw) if envelope is None else envelope.decode(runtime)


class _Signatures:
    """Signatures that the workers check."""

    def __init__(self, claims: list[Claim], verdicts: Verdicts, verify: VerifySignature) -> None:
        self._positions = {claim.signature: position for position, claim in enumerate(claims)}
        self._claims = claims
        self._verdicts = verdicts
        self._verify_signature = verify

    def verify(self, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        position = self._positions.get(signature)
        if position is None or not self._verdicts.valid[position]:
            return self._verify_signature(scheme, signer, payload, signature)
        # A block can put one signature under several messages, so the verdict holds for the whole claim only.
        key = scheme, signer, payload, signature
        return key == self._claims[position] or self._verify_signature(*key)


class TransactionPool(Listener):
    """The pool of one node, over the state of the preferred tip; `queue` holds the extrinsics."""

    def __init__(
        self,
        *,
        chain: Chain,
        verifier: Verifier,
        clock: Clock,
        relay: Relay,
        on_status: OnStatus,
        blame: Blame = lambda *_: None,
        clock_seconds: Seconds = perf_counter,
    ) -> None:
        """Create it; `blame` receives the peers that send forgeries, `clock_seconds` measures refused work."""
        self.queue = TransactionQueue()
        self._banned_signers = BanList()
        self.entrance = Entrance(self, verifier, blame, clock_seconds)
        self._chain = chain
        self._verifier = verifier
        self._clock = clock
        self._relay = relay
        self._on_status = on_status
        self._set_tip(chain.final)
        self._best_block = chain.final
        self._turn = 0  # of the revalidation: a position in the queue
        self._told: dict[bytes, None] = {}  # blocks above the final one whose extrinsics were reported `in_block`
        self._held_extrinsics: dict[bytes, Held] = {}
        self._watched_hashes: OrderedDict[bytes, None] = OrderedDict()
        self._account_item = chain.runtime.item(System.account)

    # --- admission

    async def submit(self, raw: bytes) -> bytes:
        """Take an extrinsic of this node's user, return its hash, and report its status from here on.

        Raise `PoolRefusalError` if it is refused.
        """
        extrinsic_hash = blake2_256(raw)
        is_new = extrinsic_hash not in self._watched_hashes
        self._watched_hashes[extrinsic_hash] = None
        if len(self._watched_hashes) > WATCHED_MAX:
            self._watched_hashes.popitem(last=False)
        submit_outcome: bytes | Refusal | None = None
        try:
            (submit_outcome,) = await self.submit_many([raw])
        finally:
            # Otherwise refused extrinsics, which are free, would push out those of others. An extrinsic that a client
            # already watches stays.
            if is_new and not isinstance(submit_outcome, bytes):
                self._watched_hashes.pop(extrinsic_hash, None)
        if isinstance(submit_outcome, Refusal):
            raise PoolRefusalError(*submit_outcome)
        return submit_outcome

    async def submit_many(self, raws: list[bytes]) -> list[bytes | Refusal]:
        """Take extrinsics of this node's users, in order; return for each its hash or its refusal.

        Their statuses are not reported.
        """
        return await self.entrance.submit(raws)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take an extrinsic from a peer, unless it was already judged."""
        if kind is FrameKind.TX:
            extrinsic_hash = blake2_256(payload)
            if not (self._relay.has_passed_on(extrinsic_hash) or extrinsic_hash in self.queue):
                self.offer(payload, peer, extrinsic_hash)

    def offer(self, raw: bytes, peer: str, extrinsic_hash: bytes) -> None:
        """Take an extrinsic from a peer; it is dropped if the peer sends too much, or too much that is refused."""
        self.entrance.offer(raw, peer, extrinsic_hash)

    def foresee(self, raws: Iterable[bytes]) -> Foreseen | None:
        """Have the signatures of a block checked that is about to be executed; no caller waits for them."""
        if self._verifier.frames_waiting > FORESEEN_FRAMES_MAX:
            return None
        return foresee(raws, self._validator.payload, self._verifier)

    async def run(self) -> None:
        """Admit arrivals until cancelled."""
        await self.entrance.run()

    def check_outside(self, arrival: Arrival) -> Vetted:
        """Check an arrival before its signature. Raise `PoolRefusalError` if it is refused."""
        self.queue.refuse_known(arrival.extrinsic_hash, self._now_seconds)
        try:
            envelope = open_envelope(arrival.raw)
        except DecodeError as error:
            raise PoolRefusalError(UNDECODABLE, "Extrinsic has invalid format", str(error)) from error
        except Exception as error:
            raise self._fault_of(arrival.extrinsic_hash) from error
        authorization = envelope.authorization
        self._banned_signers.refuse(brought_by(arrival.source, authorization.signer), self._now_seconds)
        vouched = self._vouched_extrinsic(arrival.extrinsic_hash, envelope)
        self.queue.refuse_hopeless(
            authorization.signer, authorization.extra.nonce, highest_priority(authorization.extra.tip, len(arrival.raw))
        )
        claim = Claim(
            authorization.signature.scheme,
            authorization.signer,
            vouched.payload,
            authorization.signature.signature,
        )
        return Vetted(arrival, vouched, claim, self._tip_block.facts.id)

    def _vouched_extrinsic(self, extrinsic_hash: bytes, envelope: Envelope) -> Vouched:
        try:
            return self._validator.check_outside(envelope)
        except InvalidTransaction as error:
            self.queue.ban(extrinsic_hash, self._now_seconds())
            raise PoolRefusalError(INVALID, "Invalid Transaction", str(error)) from error
        except NodeError:  # a fault of the database, not of the extrinsic
            raise
        except Exception as error:
            raise self._fault_of(extrinsic_hash) from error

    def enter(self, checked: Vetted, *, is_signed: bool) -> None:
        """Decode the call of a signed extrinsic, and add it to the queue. Raise `PoolRefusalError` if it is refused."""
        arrival, vouched, claim, vetted_tip = checked
        extrinsic_hash = arrival.extrinsic_hash
        if not is_signed:
            self.queue.ban(extrinsic_hash, self._now_seconds())
            raise PoolRefusalError(*BAD_PROOF)
        if vetted_tip != self._tip_block.facts.id:  # the tip moved during the signature check
            # Half of the arrivals are in the workers when a slot begins; none of them is decoded a second time.
            vouched = self._vouched_extrinsic(extrinsic_hash, vouched.envelope)
            if vouched.payload != claim.payload:
                raise PoolRefusalError(INVALID, "Invalid Transaction", "signed for another fork")
        self.queue.refuse_known(extrinsic_hash, self._now_seconds)
        bringer = brought_by(arrival.source, claim.signer)
        self._banned_signers.refuse(
            bringer, self._now_seconds
        )  # an extrinsic that was checked with it may have caused a ban
        nonce = vouched.envelope.authorization.extra.nonce
        # Decoding it earns no fee: 64 such extrinsics of one account, its balance untouched, took 9 s of this node.
        if len(arrival.raw) >= LONG_BYTES and nonce > self.queue.next_nonce(claim.signer, vouched.account_nonce):
            raise PoolRefusalError(
                NO_ROOM, "Immediately dropped", "an extrinsic of this length cannot wait for a lower nonce"
            )
        try:
            self._take_in(arrival, vouched, claim)
        except PoolRefusalError:
            # Decoding it earned no fee, so one refusal bans the signer's extrinsics from this source. Anybody may hand
            # in a signed extrinsic of others, so other sources of the same signer are unaffected.
            if len(arrival.raw) >= LONG_BYTES:
                self.queue.ban(extrinsic_hash, self._now_seconds())
                self._banned_signers.add(bringer, self._now_seconds())
            raise

    def _take_in(self, arrival: Arrival, vouched: Vouched, claim: Claim) -> None:
        extrinsic_hash = arrival.extrinsic_hash
        validity = self._judge_call(extrinsic_hash, vouched)
        candidate = PooledExtrinsic(
            extrinsic_hash,
            arrival.raw,
            claim.signer,
            vouched.envelope.authorization.extra.nonce,
            validity.priority,
            self._tip_block.facts.height + validity.longevity,
            validity.fee,
        )
        admitted = self.queue.add(candidate, vouched.account_nonce, vouched.spendable)
        self._held_extrinsics[extrinsic_hash] = Held(validity.extrinsic, claim, len(arrival.raw) >= LONG_BYTES)
        if admitted.dropped_hashes:
            self._forget_extrinsics(admitted.dropped_hashes, "dropped")
        if admitted.usurped_hash is not None:
            self._held_extrinsics.pop(admitted.usurped_hash, None)
            self._report_status(admitted.usurped_hash, "usurped", extrinsic_hash, is_last=True)
            self.queue.ban(
                admitted.usurped_hash, self._now_seconds()
            )  # otherwise a repeated copy would be decoded again
        if extrinsic_hash in admitted.dropped_hashes:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "the pool is full of extrinsics that pay more")
        self._report_status(extrinsic_hash, admitted.status)
        # An extrinsic that waits for a nonce may never pay. This node bears its cost and does not pass it to others.
        if admitted.status == READY:
            self._relay.pass_on(extrinsic_hash, arrival.raw, arrival.source)
        if admitted.promoted_hashes:
            self._report_promoted(admitted.promoted_hashes)

    def _judge_call(self, extrinsic_hash: bytes, vouched: Vouched) -> Validity:
        try:
            return self._validator.check_call(vouched)
        except (DecodeError, InvalidTransaction) as error:
            self.queue.ban(extrinsic_hash, self._now_seconds())
            if isinstance(error, DecodeError):
                raise PoolRefusalError(UNDECODABLE, "Extrinsic has invalid format", str(error)) from error
            raise PoolRefusalError(INVALID, "Invalid Transaction", str(error)) from error
        except NodeError:  # a fault of the database, not of the extrinsic
            raise
        except Exception as error:
            raise self._fault_of(extrinsic_hash) from error

    def _fault_of(self, extrinsic_hash: bytes) -> PoolRefusalError:
        """Ban an extrinsic that breaks this node, and return the refusal.

        Any fault of our own ends here: the task that admits serves every source.
        """
        _LOG.exception("extrinsic 0x%s raised an unexpected error: banned", extrinsic_hash.hex())
        self.queue.ban(extrinsic_hash, self._now_seconds())
        return PoolRefusalError(INVALID, "Invalid Transaction", "this node cannot check it")

    # --- reads

    def ready(self) -> Iterator[PooledExtrinsic]:
        """Return the extrinsics that an author may take, in order."""
        return self.queue.ready()

    def held(self, extrinsic_hash: bytes) -> Held:
        """Return an extrinsic in the pool, decoded."""
        return self._held_extrinsics[extrinsic_hash]

    def pending(self) -> list[bytes]:
        """Return the extrinsics that the accepted block's chain does not hold yet.

        First come those in blocks above it, then the pool's: ready ones in the order of a block, then future ones.
        """
        _, blocks_above_best = self._chain.path(self._best_block.facts.id, self._tip_block.facts.id)
        in_blocks = [raw for block in blocks_above_best for raw in self._signed_in(block)]
        ready_extrinsics = [candidate.raw for candidate in self.queue.ready()]
        future_extrinsics = [candidate.raw for candidate in self.queue.future()]
        return in_blocks + ready_extrinsics + future_extrinsics

    def next_nonce(self, account: bytes, nonce: int) -> int:
        """Return the first nonce from `nonce` on that the account uses neither in the pool nor up to the tip."""
        return self.queue.next_nonce(account, max(nonce, self._nonce_of(account)))

    def drop_invalid(self, extrinsic_hash: bytes, reason: str) -> None:
        """Remove and ban an extrinsic that an author found invalid, or that broke this node."""
        _LOG.info("extrinsic 0x%s leaves the pool: %s", extrinsic_hash.hex(), reason)
        self.queue.ban(extrinsic_hash, self._now_seconds())
        self._held_extrinsics.pop(extrinsic_hash, None)
        self._follow_settled(self.queue.remove(extrinsic_hash), "invalid")

    # --- the chain moves

    def on_tip(self, block: bytes) -> None:
        """Follow a new preferred tip: used extrinsics leave, extrinsics of reverted blocks return."""
        tip = self._chain[block]
        reverted_blocks, new_blocks = self._chain.path(self._tip_block.facts.id, block)
        self._set_tip(tip)
        nonces = {account: self._nonce_of(account) for account in self._moved_accounts(reverted_blocks + new_blocks)}
        settled = self.queue.settle(nonces, tip.facts.height + 1)
        for extrinsic_hash in settled.used_hashes:
            self._held_extrinsics.pop(extrinsic_hash, None)
        self._follow_settled(settled, "dropped")
        if reverted_blocks:
            included = {raw for executed in new_blocks for raw in executed.extrinsics}
            reverted = [raw for executed in reversed(reverted_blocks) for raw in executed.extrinsics]
            self._take_back([raw for raw in reverted if raw not in included])
        self._revalidate()

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """Follow a new accepted block, whose state clients read: report its extrinsics as `in_block`."""
        del reverted
        accepted = self._chain.get(block)
        if accepted is None:
            return
        reverted_blocks, new_blocks = self._chain.path(self._best_block.facts.id, block)
        self._best_block = accepted
        for executed in reverted_blocks:
            # A block is reported `retracted` only if it was reported `in_block`.
            if executed.facts.id in self._told:
                del self._told[executed.facts.id]
                self._report_all(executed, "retracted")
        for executed in new_blocks:
            self._report_in_block(executed)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Report the extrinsics of final blocks, whether or not they were accepted before."""
        for executed in blocks:
            self._report_in_block(executed)
            self._report_all(executed, "finalized", is_last=True)
            del self._told[executed.facts.id]
        last_block = blocks[-1]
        if self._best_block.facts.height <= last_block.facts.height:
            self._best_block = last_block
            self._told.clear()

    # --- inside

    def _now_seconds(self) -> float:
        return self._clock.now_ms() / 1000

    def _set_tip(self, tip: ExecutedBlock) -> None:
        self._tip_block = tip
        self._validator = TransactionValidator(self._chain.runtime, tip.state, tip.facts.id)

    def _take_back(self, raws: list[bytes]) -> None:
        """Take back extrinsics of reverted blocks; their signatures were checked."""
        for raw in raws:
            try:
                self.enter(self.check_outside(Arrival(raw, REVERTED, blake2_256(raw))), is_signed=True)
            except PoolRefusalError as refusal:
                _LOG.debug("an extrinsic of a reverted block is refused: %s", refusal)

    def _revalidate(self) -> None:
        """Check a part of the queue again, in turn: an extrinsic that can no longer pay must not wait for an author."""
        hashes = self.queue.hashes()
        if self._turn >= len(hashes):
            self._turn = 0
        for extrinsic_hash in hashes[self._turn : self._turn + REVALIDATED_PER_BLOCK]:
            try:
                self._validator.validate(self._held_extrinsics[extrinsic_hash].extrinsic, lambda *_: True)
            except InvalidTransaction as error:
                self.drop_invalid(extrinsic_hash, str(error))
        self._turn += REVALIDATED_PER_BLOCK

    def _moved_accounts(self, executed_blocks: list[ExecutedBlock]) -> dict[bytes, None]:
        account_prefix = self._account_item.prefix
        changed_keys = (
            key for executed in executed_blocks for key in executed.changes if key.startswith(account_prefix)
        )
        return {key[-ACCOUNT_BYTES:]: None for key in changed_keys if self.queue.is_sender(key[-ACCOUNT_BYTES:])}

    def _nonce_of(self, account: bytes) -> int:
        encoded_account = self._tip_block.state.get(self._account_item.key(account))
        return 0 if encoded_account is None else int(self._account_item.decode(encoded_account).nonce)

    def _follow_settled(self, settled: Settled, why_dropped: str) -> None:
        self._forget_extrinsics(settled.dropped_hashes, why_dropped)
        self._report_promoted(settled.promoted_hashes)
        for extrinsic_hash in settled.demoted_hashes:
            self._report_status(extrinsic_hash, "future")

    def _report_promoted(self, hashes: Iterable[bytes]) -> None:
        """Report extrinsics that became ready, and pass them on to peers."""
        for extrinsic_hash in hashes:
            self._report_status(extrinsic_hash, "ready")
            candidate = self.queue.get(extrinsic_hash)
            if candidate is not None and not self._relay.has_passed_on(extrinsic_hash):
                self._relay.pass_on(extrinsic_hash, candidate.raw, None)

    def _forget_extrinsics(self, hashes: Iterable[bytes], drop_detail: str) -> None:
        for extrinsic_hash in hashes:
            held = self._held_extrinsics.pop(extrinsic_hash, None)
            if held is not None and held.is_long:  # otherwise a repeated copy would be decoded again
                self.queue.ban(extrinsic_hash, self._now_seconds())
            self._report_status(extrinsic_hash, drop_detail, is_last=True)

    def _signed_in(self, block: ExecutedBlock) -> tuple[bytes, ...]:
        """Return a block's signed extrinsics: inherents come first, and decoding 10,000 transfers would take 0.2 s."""
        for position, raw in enumerate(block.extrinsics):
            if decode_extrinsic(self._chain.runtime, raw).authorization is not None:
                return block.extrinsics[position:]
        return ()

    def _report_in_block(self, block: ExecutedBlock) -> None:
        if block.facts.id not in self._told:
            self._told[block.facts.id] = None
            self._report_all(block, "in_block")

    def _report_all(self, block: ExecutedBlock, status: str, *, is_last: bool = False) -> None:
        if not self._watched_hashes:  # the usual case: clients that submit in bulk read the state, not statuses
            return
        for raw in block.extrinsics:
            self._report_status(blake2_256(raw), status, block.facts.id, is_last=is_last)

    def _report_status(
        self, extrinsic_hash: bytes, status: str, block_id: bytes | None = None, *, is_last: bool = False
    ) -> None:
        if extrinsic_hash in self._watched_hashes:
            self._on_status(extrinsic_hash, status, block_id)
            if is_last:
                del self._watched_hashes[extrinsic_hash]
