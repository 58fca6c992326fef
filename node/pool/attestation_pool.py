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

    signed: AnyAttestation
    size: int
    height: int


class AttestationPool(Listener):
    """The attestations of one node."""

    def __init__(
        self,
        chain: Chain,
        peers: Peers,
        gossip: Gossip,
        best: Callable[[], bytes],
        blame: Blame,
        seconds: Seconds,
    ) -> None:
        """Create the pool; `best` returns the id of the block on whose state arrivals are judged.

        `blame` and `seconds` are for `Spreading`.
        """
        self._chain = chain
        self._decode = chain.runtime.codecs.of(AttestationWire).decode
        self._judged = JudgedState(chain, best)
        self._spreading = Spreading(FrameKind.ATTESTATION, peers, gossip, self._judged.block_id, blame, seconds)
        self._kept: dict[OrderKey, _Kept] = {}
        self._bytes = 0
        self._failed = FailedChecks()

    def __len__(self) -> int:
        return len(self._kept)

    # --- admission

    def submit(self, raw: bytes) -> bytes:
        """Take an attestation of this node's user, and return its hash. Raise `PoolRefusalError` if it is refused."""
        self._add(raw)
        self._spreading.tell(raw)
        return blake2_256(raw)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take an attestation from a peer, and pass it on."""
        self._spreading.hear(kind, payload, peer, lambda raw: self._add(raw, peer))

    def _add(self, raw: bytes, source: str | None = None) -> None:
        signed: AnyAttestation = decoded(self._decode, raw, "Attestation")
        place = order_key(signed)
        if place in self._kept:
            why = "the pool has one for this step of this work"
            raise PoolRefusalError(ALREADY_KNOWN, "Attestation is already known", why)
        if len(self._kept) >= COUNT_MAX or self._bytes + len(raw) > BYTES_MAX:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "too many attestations wait")
        signer = signed.statement.provider_key
        self._failed.refuse_more(source, signer, self._chain.parameters.epoch_of(self._chain.final.facts.height))
        problem = source_of(signed, self._judged.bound().pallets).lasting_problem(signed)
        if problem == BAD_SIGNATURE:  # the statement names the key, so no state can explain a bad signature
            self._failed.note(source, signer)
            raise ForgedError(INVALID, "Invalid Attestation", problem)
        if problem:
            raise PoolRefusalError(INVALID, "Invalid Attestation", problem)
        self._kept[place] = _Kept(signed, len(raw), self._chain.final.facts.height)
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
        size, spent, room = 0, 0, bound[Attestations].room().ref_time
        try:
            with bound.overlay.transaction():
                for place in sorted(self._kept):
                    kept = self._kept[place]
                    if len(chosen) == ATTESTATIONS_PER_BLOCK_MAX or size + kept.size > ATTESTATION_BYTES_PER_BLOCK_MAX:
                        break
                    weight = _weight_attached(bound, kept.signed)
                    if weight is None:
                        continue
                    spent += weight.ref_time  # each includes an inherent's fixed weight: an upper bound
                    if spent > room:
                        break
                    chosen.append(kept.signed)
                    size += kept.size
                raise _UndoError  # noqa: TRY301  # the only way to undo a transaction of the overlay
        except _UndoError:
            return chosen

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Drop attestations that the final chain holds, and old ones."""
        for block in blocks:
            for signed in self._attached(block):
                self._forget(order_key(signed))
        oldest = blocks[-1].facts.height - KEPT_BLOCKS
        gone = [place for place, kept in self._kept.items() if kept.height < oldest]
        for place in (*gone, *self._passed()):
            self._forget(place)
        assert self._bytes == sum(kept.size for kept in self._kept.values()), (
            "the byte count is the sum of the kept sizes"
        )

    # --- inside

    def _passed(self) -> list[OrderKey]:
        """Return the attestations that the best branch has overtaken with another statement.

        They would fill the pool for nothing, and be tried for each block.
        """
        pallets = self._judged.bound().pallets
        return [
            place for place, kept in self._kept.items() if source_of(kept.signed, pallets).is_overtaken(kept.signed)
        ]

    def _attached(self, block: ExecutedBlock) -> tuple[AnyAttestation, ...]:
        for raw in block.extrinsics[1:2]:
            extrinsic = decode_extrinsic(self._chain.runtime, raw)
            if extrinsic.authorization is None and extrinsic.call.method.pallet is Attestations:
                (attestations,) = extrinsic.call.arguments
                return tuple(attestations)
        return ()

    def _forget(self, place: OrderKey) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._bytes -= kept.size


class _UndoError(Exception):
    """A trial ends: undo its changes."""


def _weight_attached(bound: Bound, signed: AnyAttestation) -> Weight | None:
    """Attach one attestation and return its weight; None if it may not be attached yet."""
    try:
        with bound.overlay.transaction():
            return bound.dispatch(Attestations.attach(attestations=(signed,)), Unsigned()).actual_weight
    except (InvalidBlock, DispatchError):
        return None
