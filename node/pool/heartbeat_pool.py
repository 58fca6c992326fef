"""Heartbeats that wait for an author, of this node's own candidates and from peers.

Invariant: a heartbeat enters only if it names a candidate, carries a valid signature, and does not contradict the final
block at its height. The pool keeps one for each candidate, so it is bounded by their number. The pallet alone decides
whether one may be attached, on the state from which the block under construction starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import Codec, codec
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.im_online import HEARTBEATS_MAX, Heartbeat, ImOnline, heartbeat_payload
from runtime.pallets.staking.stakers import CANDIDATES_MAX
from runtime.pallets.staking.trust_stake import TrustStake

AHEAD_MAX = 64
"""The most blocks between the preferred tip and a later block in a heartbeat. Its node may be ahead of this one."""
HEARTBEAT: Codec[Heartbeat] = codec(Heartbeat)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptBeat:
    """A heartbeat and the session key that signed it: its candidate may change keys later."""

    heartbeat: Heartbeat
    session_key: bytes


class HeartbeatPool(Listener):
    """The heartbeats of one node."""

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
            FrameKind.HEARTBEAT, peers, gossip, self._judged_state.block_id, blame, clock_seconds
        )
        self._kept: dict[bytes, KeptBeat] = {}
        self._failed_checks = FailedChecks()

    def __len__(self) -> int:
        return len(self._kept)

    # --- admission

    def submit(self, heartbeat: Heartbeat) -> None:
        """Take and send an own heartbeat; for an epoch's second one, send the first one again.

        Raise `PoolRefusalError` if it is refused.
        """
        stash = heartbeat.seen.stash
        kept = self._kept.get(stash)
        if kept is None or self._epoch_of(kept.heartbeat.seen.number) < self._epoch_of(heartbeat.seen.number):
            self._add_heartbeat(heartbeat)
        self._spreading.tell(HEARTBEAT.encode(self._kept[stash].heartbeat))

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Take a heartbeat from a peer, and pass it on."""
        self._spreading.hear(
            kind,
            payload,
            peer,
            lambda raw: self._add_heartbeat(decoded(HEARTBEAT.decode, raw, "Heartbeat"), peer),
        )

    def _add_heartbeat(self, heartbeat: Heartbeat, source: str | None = None) -> None:
        """Add a heartbeat. Cheap checks come first, then reads of state, then the signature."""
        stash, beat_number = heartbeat.seen.stash, heartbeat.seen.number
        kept = self._kept.get(stash)
        if kept is not None and self._epoch_of(kept.heartbeat.seen.number) >= self._epoch_of(beat_number):
            raise PoolRefusalError(ALREADY_KNOWN, "Heartbeat is already known", "the pool has one of this epoch")
        if kept is None and len(self._kept) >= CANDIDATES_MAX:
            raise PoolRefusalError(NO_ROOM, "Immediately dropped", "too many heartbeats wait")
        self._kept[stash] = KeptBeat(heartbeat, self._checked_session(heartbeat, source))

    def _checked_session(self, heartbeat: Heartbeat, source: str | None) -> bytes:
        """Return the key that signed a heartbeat.

        Raise `PoolRefusalError` if no block of the best branch can hold it soon.
        """
        seen = heartbeat.seen
        best = self._judged_state.block()
        epoch, epoch_now = self._epoch_of(seen.number), self._epoch_of(best.facts.height)
        if epoch < epoch_now or not 0 < seen.number <= best.facts.height + AHEAD_MAX:
            raise _invalid_heartbeat("its block is too old or too new")
        if seen.number <= self._chain.final.facts.height and self._chain.storage.id_at(seen.number) != seen.block:
            raise _invalid_heartbeat("its block is not final here")
        self._failed_checks.refuse_more(source, seen.stash, epoch_now)
        stake = self._judged_state.bound()[TrustStake]
        candidate = stake.candidates[seen.stash]
        if candidate is None:
            raise _invalid_heartbeat("no candidate")
        payload = heartbeat_payload(self._chain.genesis, seen)
        # Before the check that excuses an honest peer: otherwise forgeries would hide behind a candidate that was heard
        # already.
        if not verify_ed25519(candidate.session_key, payload, heartbeat.signature):
            raise self._unsigned(heartbeat, payload, candidate.session_key, source)
        if stake.was_on_line(seen.stash, epoch):
            raise _invalid_heartbeat("the candidate is on line in this epoch already")
        return candidate.session_key

    def _unsigned(self, heartbeat: Heartbeat, payload: bytes, session: bytes, source: str | None) -> PoolRefusalError:
        """Return the refusal of a signature that the best state's key did not make.

        It is a forgery, unless the final state's key made it.
        """
        former = self._final_state.bound()[TrustStake].candidates[heartbeat.seen.stash]
        # A peer with an older best block judges by the key that this candidate has just replaced.
        if (
            former is not None
            and former.session_key != session
            and verify_ed25519(former.session_key, payload, heartbeat.signature)
        ):
            return _invalid_heartbeat("signed with a replaced key")
        self._failed_checks.note(source, heartbeat.seen.stash)
        return ForgedError(INVALID, "Invalid Heartbeat", "bad signature")

    # --- inherents

    def inherents(self, bound: Bound) -> Iterable[Call]:
        """Yield the call that attaches the valid heartbeats, as far as there is room, if there is one."""
        im_online = bound[ImOnline]
        chosen: list[Heartbeat] = []
        for stash in self._stashes_in_turn(bound[TrustStake]):
            if len(chosen) == HEARTBEATS_MAX:
                break
            heartbeat = self._kept[stash].heartbeat
            if not im_online.problem(heartbeat):
                chosen.append(heartbeat)
        # Other inherents use the block's weight too. The rest waits for the next block.
        while chosen and not ImOnline.attach(heartbeats=tuple(chosen)).weight.fits(im_online.room()):
            chosen.pop()
        if chosen:
            yield ImOnline.attach(
                heartbeats=tuple(sorted(chosen, key=lambda kept_heartbeat: kept_heartbeat.seen.stash))
            )

    def _stashes_in_turn(self, stake: TrustStake) -> list[bytes]:
        """Return the stashes in the order of their heartbeats: if too many wait, those with the most stake first.

        Otherwise many candidates with the least bond would keep out electable ones, in epochs of few blocks.
        """
        if len(self._kept) <= HEARTBEATS_MAX:
            return sorted(self._kept)
        return sorted(self._kept, key=lambda stash: (-stake.behind(stash), stash))

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Drop heartbeats of past epochs, and of candidates that were heard, withdrew or changed keys."""
        block = blocks[-1]
        final_epoch = self._epoch_of(block.facts.height)
        stake = self._chain.runtime.at(block.state)[TrustStake]
        for stash, kept in list(self._kept.items()):
            if self._epoch_of(kept.heartbeat.seen.number) < final_epoch or self._is_settled(stake, kept):
                del self._kept[stash]

    def _is_settled(self, stake: TrustStake, kept: KeptBeat) -> bool:
        """Return True if a final state makes a heartbeat useless; the heart makes another where one is needed."""
        seen, candidate = kept.heartbeat.seen, stake.candidates[kept.heartbeat.seen.stash]
        if candidate is None or candidate.session_key != kept.session_key:
            return True
        if stake.was_on_line(seen.stash, self._epoch_of(seen.number)):
            return True
        return seen.number <= self._chain.final.facts.height and self._chain.storage.id_at(seen.number) != seen.block

    def _epoch_of(self, height: int) -> int:
        """Return the epoch in which a heartbeat that names block `height` counts: the one that is open after it."""
        return self._chain.parameters.epoch_of(height + 1)


def _invalid_heartbeat(refusal_detail: str) -> PoolRefusalError:
    return PoolRefusalError(INVALID, "Invalid Heartbeat", refusal_detail)
