"""The building of a block in an own slot.

Invariant: a block holds ready extrinsics in the pool's order. It fits a network message, and takes half a slot at most.
A refused extrinsic leaves the pool. An extrinsic that raises an unexpected error is quarantined, and the author
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from consensus import events as ev
from consensus.headers import final_ref_log, vrf_input
from consensus.signstate import SigningRefusedError
from node.clock import Clock
from node.duty.validator_keys import ValidatorKeys
from node.errors import NodeError
from node.ledger.chain import Chain, ExecutedBlock
from node.peers.messages import BLOCK_BYTES_MAX
from node.pool.transaction_pool import TransactionPool
from runtime.blocks.block import HEADER_BYTES_MAX
from runtime.blocks.digest import Digest, PreDigest, author_item, consensus_item, pre_digest_item
from runtime.cryptography.signatures import VerifySignature
from runtime.encoding.codec import DecodeError
from runtime.execution.block_builder import Authoring, BuiltBlock
from runtime.frame.call import Call
from runtime.frame.errors import InvalidBlock, InvalidReason, InvalidTransaction
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.timestamp import Timestamp

SLOT_SHARE = 2  # building takes at most the slot divided by this
CLOCK_EVERY = 16  # extrinsics between two reads of the clock, which cost a microsecond each
REFUSALS_FOR_SPACE_MAX = 16  # extrinsics that do not fit, before the block counts as full
_LOG = logging.getLogger(__name__)

Inherents = Callable[[Bound], Iterable[Call]]
"""An author's inherents beside the time, from the state that the extrinsics will see, which must not change."""


class Author:
    """The builder and sealer of a node's blocks."""

    def __init__(
        self,
        *,
        chain: Chain,
        keys: ValidatorKeys,
        pool: TransactionPool,
        verify: VerifySignature,
        clock: Clock,
        inherents: Inherents,
    ) -> None:
        self._chain = chain
        self._keys = keys
        self._pool = pool
        self._verify = verify
        self._clock = clock
        self._inherents = inherents

    def build(self, request: ev.Build) -> ev.BlockFacts | None:
        """Return a block for `request`, sealed and in the tree; None for an empty block without use.

        Raise `SigningRefusedError` if this node sealed another block for this slot.
        """
        parent = self._chain[request.parent]
        digest = self._digest(request, parent)
        authoring = Authoring(self._chain.runtime, parent.state, parent.trie, parent.facts.id, digest)
        authoring.inherent(Timestamp.set(now=request.slot * self._chain.parameters.slot_ms))
        attached = self._attach(authoring)
        taken = self._fill(authoring)
        if not (attached or taken or request.heartbeat):
            return None
        built = authoring.finish()
        return self._seal(built, request)

    def _digest(self, request: ev.Build, parent: ExecutedBlock) -> Digest:
        epoch = self._chain.epochs(request.epoch)
        if epoch is None:
            raise RuntimeError(f"build request for epoch {request.epoch}, which is not determined")
        seat = self._keys.seat(request.epoch)
        if seat is None:
            raise SigningRefusedError(f"no key of this node has a seat in epoch {request.epoch}")
        output, proof = self._keys.prove_vrf(request.epoch, vrf_input(self._chain.genesis, epoch.seed, request.slot))
        pre_digest = PreDigest(request.slot, request.epoch, output, proof)
        digest: Digest = (author_item(seat.stash), pre_digest_item(pre_digest))
        if request.final_ref is not None:
            digest = (*digest, consensus_item(final_ref_log(request.final_ref)))
        following = self._chain.runtime.at(parent.state)[TrustStake].next_validators(request.height)
        return digest if following is None else (*digest, consensus_item(following))

    def _attach(self, authoring: Authoring) -> int:
        """Add the valid inherents and return their number. An invalid one is this node's own mistake and left out."""
        count = 0
        for call in self._inherents(authoring.bound):
            try:
                authoring.inherent(call)
                count += 1
            except InvalidBlock as error:
                _LOG.warning("left out an invalid inherent of this node: %s", error)
        return count

    def _fill(self, authoring: Authoring) -> int:  # noqa: C901, PLR0912  # one case for each way to be refused
        """Offer ready extrinsics until the block is full or time is up, and return the number taken."""
        slot_ms = self._chain.parameters.slot_ms
        deadline_ms = self._clock.now_ms() + slot_ms // SLOT_SHARE
        room = BLOCK_BYTES_MAX - HEADER_BYTES_MAX
        taken = refusals = 0
        invalid: list[tuple[bytes, str]] = []
        stuck: set[bytes] = set()  # senders of a refused extrinsic: their later ones lack the nonce before them
        for number, candidate in enumerate(self._pool.ready()):
            # A sender who cannot pay could otherwise make an author examine a thousand extrinsics in vain.
            if candidate.sender in stuck:
                continue
            if refusals >= REFUSALS_FOR_SPACE_MAX:
                break
            if number % CLOCK_EVERY == 0 and self._clock.now_ms() >= deadline_ms:
                break
            if len(candidate.raw) + 4 > room:
                refusals += 1
                continue
            try:
                held = self._pool.held(candidate.extrinsic_hash)
                authoring.offer(held.extrinsic, held.verified_or(self._verify))
            except InvalidTransaction as error:
                # A used nonce (the chain moved under the pool) does not block the sender's later extrinsics.
                if error.reason not in (InvalidReason.STALE, InvalidReason.FUTURE):
                    stuck.add(candidate.sender)
                if error.reason is InvalidReason.EXHAUSTS_RESOURCES:
                    refusals += 1
                elif error.reason is not InvalidReason.FUTURE:
                    invalid.append((candidate.extrinsic_hash, str(error)))
            except DecodeError as error:
                invalid.append((candidate.extrinsic_hash, str(error)))
            except NodeError:  # the disk, not the extrinsic
                raise
            except Exception:  # noqa: BLE001  # any fault of our own ends here
                _LOG.exception("extrinsic 0x%s raised an unexpected error: quarantined", candidate.extrinsic_hash.hex())
                invalid.append((candidate.extrinsic_hash, "quarantined"))
            else:
                taken += 1
                room -= len(candidate.raw) + 4
        # Only after the loop: a removal changes the order that `ready` iterates over.
        for extrinsic_hash, reason in invalid:
            self._pool.drop_invalid(extrinsic_hash, reason)
        return taken

    def _seal(self, built: BuiltBlock, request: ev.Build) -> ev.BlockFacts:
        session = self._keys.session_of(request.epoch)
        assert session is not None, "a sealing key has a seat"
        header = self._keys.seal(request.epoch, request.slot, built.header)
        return self._chain.add_own(header, built, request.final_ref, request.slot, session)
