"""Execution attestations that wait for an author, from this node's own provider and from peers.

Invariant: an attestation enters only if its market could take it in the best state, and its key signed it. The pool
keeps one for each step of each piece of work. Count and bytes are bounded over all kinds together. The pool knows
markets only as work sources. The pallet alone decides whether an attestation may be attached, on the state from which
the block under construction starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    BAD_SIGNATURE,
    AnyAttestation,
    AttestationWire,
    OrderKey,
    order_key,
)
from gpu_tasks.market.attestations.work_source import source_of
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.p2p.meter import Seconds
from node.peers.peers import Peers
from node.pool.gossip_pool import FailedChecks, Spreading, decoded
from node.pool.judged_state import JudgedState
from node.pool.manners import Blame
from node.pool.refusal import ALREADY_KNOWN, INVALID, NO_ROOM, ForgedError, PoolRefusalError
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Unsigned, Weight
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError, InvalidBlock
from runtime.frame.runtime import Bound

COUNT_MAX = 4_096
BYTES_MAX = 4 * 1024 * 1024
KEPT_BLOCKS = 256  # longer than any race; a provider sends an attestation again that a task still waits for
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """An attestation, its length, and the final height at its arrival."""

    signed_attestation: AnyAttestation
    size_bytes: int
    height: int


class AttestationPool(Listener):
    """The attestations of one node."""

    def __init__(
        self,
        chain: Chain,
        peers: Peers,
        gossip: Gossip,
        best_block_id: Callable[[], bytes],
        blame: Blame,
        clock_seconds: Seconds,
    ) -> None:
        """Create the pool; `best_block_id` returns the id of the block on whose state arrivals are judged.

        `blame` and `clock_seconds` are for `Spreading`.
        """
        self._chain = chain
        self._decode_attestation = chain.runtime.codecs.of(AttestationWire).decode
        self._judged_state = JudgedState(chain, best_block_id)
        self._spreading = Spreading(
            FrameKind.ATTESTATION, peers, gossip, self._judged_state.block_id, blame, clock_seconds
        )
        self._kept: dict[OrderKey, _Kept] = {}
        self._bytes = 0
        self._failed_checks = FailedChecks()

    def __len__(self) -> int:
        return len(self._kept)

    # --- admission

    def submit(self, raw: bytes) -> bytes:
        """Take an attestation of this node's user, and return its hash. Raise `PoolRefusalError` if it is refused."""
        self._add_attestation(raw)
        self._spreading.tell(raw)
        return blake2_256(raw)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take an attestation from a peer, and pass it on."""
        self._spreading.hear(kind, payload, peer, lambda raw: self._add_attestation(raw, peer))

    def _add_attestation(self, raw: bytes, source: str | None = None) -> None:
        signed: AnyAttestation = decoded(self._decode_attestation, raw, "Attestation")
        step_key = order_key(signed)
        if step_key in self._kept:
            refusal_detail = "the pool has one for this step of this work"
            raise PoolRefusalError(ALREADY_KNOWN, "Attestation is already known", refusal_detail)
        if len(self._kept) >= COUNT_MAX or self._bytes + len(raw) > BYTES_MAX:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "too many attestations wait")
        signer = signed.statement.provider_key
        self._failed_checks.refuse_more(source, signer, self._chain.parameters.epoch_of(self._chain.final.facts.height))
        lasting_problem = source_of(signed, self._judged_state.bound().pallets).lasting_problem(signed)
        if lasting_problem == BAD_SIGNATURE:  # the statement names the key, so no state can explain a bad signature
            self._failed_checks.note(source, signer)
            raise ForgedError(INVALID, "Invalid Attestation", lasting_problem)
        if lasting_problem:
            raise PoolRefusalError(INVALID, "Invalid Attestation", lasting_problem)
        self._kept[step_key] = _Kept(signed, len(raw), self._chain.final.facts.height)
        self._bytes += len(raw)

    # --- inherents

    def inherents(self, bound: Bound) -> Iterable[Call]:
        """Yield the call that attaches every valid attestation, if there is one. Leave `bound` unchanged."""
        chosen = self._admissible(bound)
        if chosen:
            yield Attestations.attach(attestations=tuple(chosen))

    def _admissible(self, bound: Bound) -> list[AnyAttestation]:
        """Attach each attestation in turn, keep those that succeed, and undo all changes.

        One attestation may close a race for another, or open the next step of a task.
        """
        chosen: list[AnyAttestation] = []
        total_bytes, spent_ref_time, ref_time_room = 0, 0, bound[Attestations].room().ref_time
        try:
            with bound.overlay.transaction():
                for step_key in sorted(self._kept):
                    kept = self._kept[step_key]
                    if (
                        len(chosen) == ATTESTATIONS_PER_BLOCK_MAX
                        or total_bytes + kept.size_bytes > ATTESTATION_BYTES_PER_BLOCK_MAX
                    ):
                        break
                    weight = _weight_attached(bound, kept.signed_attestation)
                    if weight is None:
                        continue
                    spent_ref_time += weight.ref_time  # each includes an inherent's fixed weight: an upper bound
                    if spent_ref_time > ref_time_room:
                        break
                    chosen.append(kept.signed_attestation)
                    total_bytes += kept.size_bytes
                raise _UndoError  # noqa: TRY301  # the only way to undo a transaction of the overlay
        except _UndoError:
            return chosen

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Drop attestations that the final chain holds, and old ones."""
        for block in blocks:
            for signed in self._attached_attestations(block):
                self._forget_entry(order_key(signed))
        oldest_height = blocks[-1].facts.height - KEPT_BLOCKS
        outdated_keys = [step_key for step_key, kept in self._kept.items() if kept.height < oldest_height]
        for step_key in (*outdated_keys, *self._passed_keys()):
            self._forget_entry(step_key)
        assert self._bytes == sum(kept.size_bytes for kept in self._kept.values()), (
            "the byte count is the sum of the kept sizes"
        )

    # --- inside

    def _passed_keys(self) -> list[OrderKey]:
        """Return the attestations that the best branch has overtaken with another statement.

        They would fill the pool for nothing, and be tried for each block.
        """
        judged_pallets = self._judged_state.bound().pallets
        return [
            step_key
            for step_key, kept in self._kept.items()
            if source_of(kept.signed_attestation, judged_pallets).is_overtaken(kept.signed_attestation)
        ]

    def _attached_attestations(self, block: ExecutedBlock) -> tuple[AnyAttestation, ...]:
        for raw in block.extrinsics[1:2]:
            extrinsic = decode_extrinsic(self._chain.runtime, raw)
            if extrinsic.authorization is None and extrinsic.call.method.pallet is Attestations:
                (attestations,) = extrinsic.call.arguments
                return tuple(attestations)
        return ()

    def _forget_entry(self, step_key: OrderKey) -> None:
        kept = self._kept.pop(step_key, None)
        if kept is not None:
            self._bytes -= kept.size_bytes


class _UndoError(Exception):
    """A trial ends: undo its changes."""


def _weight_attached(bound: Bound, signed: AnyAttestation) -> Weight | None:
    """Attach one attestation and return its weight; None if it may not be attached yet."""
    try:
        with bound.overlay.transaction():
            return bound.dispatch(Attestations.attach(attestations=(signed,)), Unsigned()).actual_weight
    except (InvalidBlock, DispatchError):
        return None
