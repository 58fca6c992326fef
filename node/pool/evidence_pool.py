"""Evidence of offences that waits for an author: this node's own findings, and proofs from peers.

Invariant: a proof enters only if, by the sets of the best branch, it proves an offence that is not punished yet. The
pool keeps one proof for each offender, so it is bounded by the validators whose offences still count. The pallet alone
decides whether a proof may be attached, on the state from which the block under construction starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

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
from runtime.blocks.evidence import EVIDENCE, DoubleBallot, DoubleHeader, DoubleProposal
from runtime.cryptography import ss58
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.staking.offences import ProvenOffence, judging_epochs
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from runtime.pallets.staking.trust_lock import PROOFS_MAX, NotAnOffence, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake

OFFENDERS_MAX = VALIDATORS_MAX
"""The number of offenders that the chain remembers. Each one needs a seat and a key that really signed twice."""
HEADERS = b""
"""A stand-in for the author in the count of failed checks: to read the author is half of a check's work."""
Proof = DoubleHeader | DoubleProposal | DoubleBallot
_LOG = logging.getLogger(__name__)


class EvidencePool(Listener):
    """The evidence of one node, one proof for each offender."""

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
        self._judged_state = JudgedState(chain, best_block_id)
        self._final_state = JudgedState(chain, lambda: chain.final.facts.id)
        self._spreading = Spreading(
            FrameKind.EVIDENCE, peers, gossip, self._judged_state.block_id, blame, clock_seconds
        )
        self._kept_evidence: dict[bytes, Proof] = {}
        self._failed_checks = FailedChecks()
        self._reported_in = -1

    def __len__(self) -> int:
        return len(self._kept_evidence)

    # --- admission

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """Keep and pass on two headers of one slot that this node saw."""
        del author, slot
        self._submit_evidence(DoubleHeader(first, second))

    def on_evidence(self, accused: bytes, evidence: bytes) -> None:
        """Keep and pass on conflicting proposals or votes that this node saw."""
        del accused
        self._submit_evidence(EVIDENCE.decode(evidence))

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take a proof from a peer, and pass it on."""
        self._spreading.hear(
            kind,
            payload,
            peer,
            lambda raw: self._add_evidence(decoded(EVIDENCE.decode, raw, "Evidence"), peer),
        )

    def _submit_evidence(self, evidence: Proof) -> None:
        try:
            self._add_evidence(evidence)
        except PoolRefusalError as refusal:
            _LOG.debug("own evidence is refused: %s", refusal)
            return
        self._spreading.tell(EVIDENCE.encode(evidence))

    def _add_evidence(self, evidence: Proof, source: str | None = None) -> None:
        if len(self._kept_evidence) >= OFFENDERS_MAX:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "too many offenders wait")
        accused_key = HEADERS if isinstance(evidence, DoubleHeader) else evidence.accused
        self._failed_checks.refuse_more(
            source, accused_key, self._chain.parameters.epoch_of(self._chain.final.facts.height)
        )
        try:
            evidence_proof = self._proven_evidence(evidence)
        except ForgedError:
            self._failed_checks.note(source, accused_key)
            raise
        if evidence_proof.offender in self._kept_evidence:
            raise PoolRefusalError(
                ALREADY_KNOWN, "Evidence is already known", "the pool has a proof against this offender"
            )
        self._kept_evidence[evidence_proof.offender] = evidence
        _LOG.warning(
            "validator %s offended: %s in epoch %d",
            ss58.encode(evidence_proof.offender),
            evidence_proof.kind.name,
            evidence_proof.epoch,
        )

    def _proven_evidence(self, evidence: Proof) -> ProvenOffence:
        try:
            return self._judged_state.bound()[TrustLock].judge(evidence)
        except NotAnOffence as error:
            # Every honest node knows the final state's sets. A peer may know later sets, and older ones.
            validator_sets = self._final_state.bound()[TrustStake]
            is_known = all(validator_sets.validators(epoch) for epoch in judging_epochs(evidence))
            error_type = ForgedError if is_known else PoolRefusalError
            raise error_type(INVALID, "Invalid Evidence", "NotAnOffence") from error
        except DispatchError as error:
            raise PoolRefusalError(INVALID, "Invalid Evidence", type(error).__name__) from error

    # --- inherents

    def inherents(self, bound: Bound) -> Iterable[Call]:
        """Yield the call that attaches the valid proofs, as far as there is room, if there is one."""
        trust_lock = bound[TrustLock]
        chosen: list[Proof] = []
        for offender in sorted(self._kept_evidence):
            if len(chosen) < PROOFS_MAX and _is_good(trust_lock, self._kept_evidence[offender]):
                chosen.append(self._kept_evidence[offender])
        # Other inherents use the block's weight too. The rest waits for the next block.
        while chosen and not TrustLock.attach_evidence(proofs=tuple(chosen)).weight.fits(trust_lock.room()):
            chosen.pop()
        if chosen:
            yield TrustLock.attach_evidence(proofs=tuple(chosen))

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Drop punished and old offences; once an epoch, send the other proofs to new peers."""
        block = blocks[-1]
        trust_lock = self._chain.runtime.at(block.state)[TrustLock]
        for offender, evidence in list(self._kept_evidence.items()):
            if not _is_good(trust_lock, evidence):
                del self._kept_evidence[offender]
        final_epoch = self._chain.parameters.epoch_of(block.facts.height)
        if final_epoch > self._reported_in:
            self._reported_in = final_epoch
            for evidence in self._kept_evidence.values():
                self._spreading.tell(EVIDENCE.encode(evidence))


def _is_good(trust_lock: TrustLock, evidence: Proof) -> bool:
    try:
        trust_lock.judge(evidence)
    except DispatchError:
        return False
    return True
