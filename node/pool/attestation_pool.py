"""Execution attestations that wait for an author, from this node's own provider and from peers.

What always holds: nothing enters whose signature does not hold, whose key is not the racer's or the slot's, or whose
race or task is not in the best state; one is kept for each place in each race, and for each of the next steps of a
slot; count and bytes are bounded, over all kinds together.  Whether one may be attached is decided by the pallet
alone, on the state that the block under construction starts from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    AnyAttestation,
    OrderKey,
    decode_attestation,
    order_key,
)
from gpu_tasks.market.attestations.statement import BAD_SIGNATURE, SignedAttestation, signing_payload
from gpu_tasks.market.attestations.task_forms import lasting_problem, record_problem
from gpu_tasks.market.attestations.task_statement import SignedTaskAttestation
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.p2p.core_time import Seconds
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.gossip_pool import FailedChecks, Spreading, decoded
from node.pool.judged_state import JudgedState
from node.pool.manners import Blame
from node.pool.refusal import ALREADY_KNOWN, INVALID, NO_ROOM, ForgedError, PoolRefusalError
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.types import Unsigned, Weight
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError, InvalidBlock
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_stake import TrustStake

COUNT_MAX = 4_096
BYTES_MAX = 4 * 1024 * 1024
KEPT_BLOCKS = 256  # longer than any race; a provider sends again what a task still waits for
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """An attestation, its length, and the height at which it came."""

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
        """`best` names the block on whose state arrivals are judged; `blame` and `seconds` are for `Spreading`."""
        self._chain = chain
        self._judged = JudgedState(chain, best)
        self._spreading = Spreading(FrameKind.ATTESTATION, peers, gossip, self._judged.block_id, blame, seconds)
        self._kept: dict[OrderKey, _Kept] = {}
        self._bytes = 0
        self._failed = FailedChecks()

    def __len__(self) -> int:
        return len(self._kept)

    # --- in

    def submit(self, raw: bytes) -> bytes:
        """Take one from this node's user -> its hash; raises `PoolRefusalError`."""
        self._add(raw)
        self._spreading.tell(raw)
        return blake2_256(raw)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take one from a peer, and pass it on."""
        self._spreading.hear(kind, payload, peer, lambda raw: self._add(raw, peer))

    def _add(self, raw: bytes, source: str | None = None) -> None:
        signed = decoded(decode_attestation, raw, "Attestation")
        place = order_key(signed)
        if place in self._kept:
            why = "one is kept for this place in the race, or this step of the slot"
            raise PoolRefusalError(ALREADY_KNOWN, "Attestation is already known", why)
        if len(self._kept) >= COUNT_MAX or self._bytes + len(raw) > BYTES_MAX:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "too many attestations wait")
        signer = signed.statement.provider_key
        self._failed.refuse_more(source, signer, self._chain.parameters.epoch_of(self._chain.final.facts.height))
        problem = self._problem(signed)
        if problem == BAD_SIGNATURE:  # the statement names the key, so no state excuses it
            self._failed.note(source, signer)
            raise ForgedError(INVALID, "Invalid Attestation", problem)
        if problem:
            raise PoolRefusalError(INVALID, "Invalid Attestation", problem)
        self._kept[place] = _Kept(signed, len(raw), self._chain.final.facts.height)
        self._bytes += len(raw)

    def _problem(self, signed: AnyAttestation) -> str:
        """Why it can never be attached on the best branch; empty if it can, now or soon."""
        bound = self._judged.bound()
        if isinstance(signed, SignedTaskAttestation):
            return lasting_problem(bound[TrainingMarket], signed)
        return self._problem_of_unit(bound, signed)

    def _problem_of_unit(self, bound: Bound, signed: SignedAttestation) -> str:
        statement = signed.statement
        owner = bound[TrustStake].stash_of(statement.provider_key)
        if owner is None:
            return "the key is no provider's"
        unit = bound[InferenceMarket].units[statement.unit]
        if unit is None or unit.attempt != statement.attempt or statement.replica >= len(unit.racers):
            return "no such race"
        # One is kept for each place: any provider's key could else take a racer's place here and keep it out.
        if unit.racers[statement.replica].owner != owner:
            return "not the racer's key"
        payload = signing_payload(self._chain.genesis, statement)
        if not verify_ed25519(statement.provider_key, payload, signed.signature):
            return BAD_SIGNATURE
        return ""

    # --- out

    def inherents(self, bound: Bound) -> Iterable[Call]:
        """The call that attaches everything admissible now, if there is anything.  `bound` is left as it was."""
        chosen = self._admissible(bound)
        if chosen:
            yield Attestations.attach(attestations=tuple(chosen))

    def _admissible(self, bound: Bound) -> list[AnyAttestation]:
        """Attach each one in turn, keep those that succeed, and undo it all.

        Attaching one may close a race for another, or open the next step of a task.
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
                    spent += weight.ref_time  # with what an inherent weighs besides, once for each: no more than room
                    if spent > room:
                        break
                    chosen.append(kept.signed)
                    size += kept.size
                raise _UndoError  # noqa: TRY301  # the one way to undo a transaction of the overlay
        except _UndoError:
            return chosen

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Forget what is in the chain, and what is too old."""
        for block in blocks:
            for signed in self._attached(block):
                self._forget(order_key(signed))
        oldest = blocks[-1].facts.height - KEPT_BLOCKS
        gone = [place for place, kept in self._kept.items() if kept.height < oldest]
        for place in (*gone, *self._passed()):
            self._forget(place)
        assert self._bytes == sum(kept.size for kept in self._kept.values()), "the bytes are those of what is kept"

    # --- inside

    def _passed(self) -> list[OrderKey]:
        """Statements of tasks whose time is over on the best branch, by whatever was stated instead.

        They would fill the pool for nothing, and be tried for each block: a slot has 64 of them.
        """
        tasks, found = self._judged.bound()[TrainingMarket].tasks, list[OrderKey]()
        records: dict[bytes, Task | None] = {}
        for place, kept in self._kept.items():
            if isinstance(kept.signed, SignedTaskAttestation):
                statement = kept.signed.statement
                if statement.task not in records:
                    records[statement.task] = tasks[statement.task]
                if record_problem(records[statement.task], statement):
                    found.append(place)
        return found

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
    """Ends a trial."""


def _weight_attached(bound: Bound, signed: AnyAttestation) -> Weight | None:
    """Attach one, and say what that weighed; None if it may not be attached now."""
    try:
        with bound.overlay.transaction():
            return bound.dispatch(Attestations.attach(attestations=(signed,)), Unsigned()).actual_weight
    except (InvalidBlock, DispatchError):
        return None
