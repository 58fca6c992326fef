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
        validator_keys: ValidatorKeys,
        transaction_pool: TransactionPool,
        verify: VerifySignature,
        clock: Clock,
        inherents: Inherents,
    ) -> None:
        self._chain = chain
        self._validator_keys = validator_keys
        self._transaction_pool = transaction_pool
        self._verify_signature = verify
        self._clock = clock
        self._inherents = inherents

    def build(self, request: ev.Build) -> ev.BlockFacts | None:
        """Return a block for `request`, sealed and in the tree; None for an empty block without use.

        Raise `SigningRefusedError` if this node sealed another block for this slot.
        """
        parent = self._chain[request.parent]
        digest_items = self._digest_items(request, parent)
        authoring = Authoring(self._chain.runtime, parent.state, parent.trie, parent.facts.id, digest_items)
        authoring.inherent(Timestamp.set(now=request.slot * self._chain.parameters.slot_ms))
        attached = self._attach_inherents(authoring)
        taken_bytes = self._fill_block(authoring)
        if not (attached or taken_bytes or request.heartbeat):
            return None
        built = authoring.finish()
        return self._seal_block(built, request)

    def _digest_items(self, request: ev.Build, parent: ExecutedBlock) -> Digest:
        build_epoch = self._chain.epochs(request.epoch)
        if build_epoch is None:
            raise RuntimeError(f"build request for epoch {request.epoch}, which is not determined")
        own_seat = self._validator_keys.seat(request.epoch)
        if own_seat is None:
            raise SigningRefusedError(f"no key of this node has a seat in epoch {request.epoch}")
        vrf_output, vrf_proof = self._validator_keys.prove_vrf(
            request.epoch, vrf_input(self._chain.genesis, build_epoch.seed, request.slot)
        )
        pre_digest = PreDigest(request.slot, request.epoch, vrf_output, vrf_proof)
        digest_items: Digest = (author_item(own_seat.stash), pre_digest_item(pre_digest))
        if request.final_ref is not None:
            digest_items = (*digest_items, consensus_item(final_ref_log(request.final_ref)))
        following = self._chain.runtime.at(parent.state)[TrustStake].next_validators(request.height)
        return digest_items if following is None else (*digest_items, consensus_item(following))

    def _attach_inherents(self, authoring: Authoring) -> int:
        """Add the valid inherents and return their number. An invalid one is this node's own mistake and left out."""
        inherent_count = 0
        for inherent_call in self._inherents(authoring.bound):
            try:
                authoring.inherent(inherent_call)
                inherent_count += 1
            except InvalidBlock as error:
                _LOG.warning("left out an invalid inherent of this node: %s", error)
        return inherent_count

    def _fill_block(self, authoring: Authoring) -> int:  # noqa: C901, PLR0912  # one case for each way to be refused
        """Offer ready extrinsics until the block is full or time is up, and return the number taken."""
        slot_ms = self._chain.parameters.slot_ms
        deadline_ms = self._clock.now_ms() + slot_ms // SLOT_SHARE
        bytes_room = BLOCK_BYTES_MAX - HEADER_BYTES_MAX
        taken_bytes = refusals = 0
        invalid_extrinsics: list[tuple[bytes, str]] = []
        stuck_senders: set[bytes] = set()  # senders of a refused extrinsic: their later ones lack the nonce before them
        for candidate_number, candidate in enumerate(self._transaction_pool.ready()):
            # A sender who cannot pay could otherwise make an author examine a thousand extrinsics in vain.
            if candidate.sender in stuck_senders:
                continue
            if refusals >= REFUSALS_FOR_SPACE_MAX:
                break
            if candidate_number % CLOCK_EVERY == 0 and self._clock.now_ms() >= deadline_ms:
                break
            if len(candidate.raw) + 4 > bytes_room:
                refusals += 1
                continue
            try:
                held = self._transaction_pool.held(candidate.extrinsic_hash)
                authoring.offer(held.extrinsic, held.verified_or(self._verify_signature))
            except InvalidTransaction as error:
                # A used nonce (the chain moved under the pool) does not block the sender's later extrinsics.
                if error.reason not in (InvalidReason.STALE, InvalidReason.FUTURE):
                    stuck_senders.add(candidate.sender)
                if error.reason is InvalidReason.EXHAUSTS_RESOURCES:
                    refusals += 1
                elif error.reason is not InvalidReason.FUTURE:
                    invalid_extrinsics.append((candidate.extrinsic_hash, str(error)))
            except DecodeError as error:
                invalid_extrinsics.append((candidate.extrinsic_hash, str(error)))
            except NodeError:  # the disk, not the extrinsic
                raise
            except Exception:  # noqa: BLE001  # any fault of our own ends here
                _LOG.exception("extrinsic 0x%s raised an unexpected error: quarantined", candidate.extrinsic_hash.hex())
                invalid_extrinsics.append((candidate.extrinsic_hash, "quarantined"))
            else:
                taken_bytes += 1
                bytes_room -= len(candidate.raw) + 4
        # Only after the loop: a removal changes the order that `ready` iterates over.
        for extrinsic_hash, drop_reason in invalid_extrinsics:
            self._transaction_pool.drop_invalid(extrinsic_hash, drop_reason)
        return taken_bytes

    def _seal_block(self, built: BuiltBlock, request: ev.Build) -> ev.BlockFacts:
        session = self._validator_keys.session_of(request.epoch)
        assert session is not None, "a sealing key has a seat"
        sealed_header = self._validator_keys.seal(request.epoch, request.slot, built.header)
        return self._chain.add_own(sealed_header, built, request.final_ref, request.slot, session)
